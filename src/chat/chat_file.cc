#include "chat/chat_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "chat/messages.h"
#include "chat/reasoning.h"

namespace veery {
namespace {

constexpr std::string_view kFormat = "veery-chat", kPageFormat = "veery-chats";
constexpr int64_t kVersion = 1;

// Returns a member of `object`, which may be any JSON; nullptr if it is absent or null.
const Json* member_of(const Json& object, std::string_view key, bool (Json::*is)() const,
                      const std::string& where, std::string_view expected) {
  if (!object.is_object())
    throw Error(ErrorKind::kInput, "{}: found a JSON {}, expected an object with {}", where,
                object.type_name(), key);
  const Json* found = object.member(key);
  if (found == nullptr || found->is_null()) return nullptr;
  if (!(found->*is)())
    throw Error(ErrorKind::kInput, "{}: {} is a JSON {}, expected {}", where, key,
                found->type_name(), expected);
  return found;
}

std::string text_of(const Json& object, std::string_view key, const std::string& where) {
  const Json* found = member_of(object, key, &Json::is_string, where, "a text");
  return found == nullptr ? "" : found->string();
}

Json object_of(const Json& object, std::string_view key, const std::string& where) {
  const Json* found = member_of(object, key, &Json::is_object, where, "an object");
  return found == nullptr ? Json::object() : *found;
}

void check_version(const Json& json, const std::string& where) {
  const Json* version = json.member("version");
  if (version == nullptr || !version->is_integer_in(1, kVersion))
    throw Error(ErrorKind::kInput, "{}: the version is {}, expected {}", where,
                version == nullptr ? "missing" : printable(dump_json(*version), 40), kVersion);
}

ChatFile read_own(const Json& json, const std::string& where) {
  check_version(json, where);
  ChatFile chat{.model = text_of(json, "model", where),
                .parameters = object_of(json, "parameters", where),
                .template_args = object_of(json, "template_args", where)};
  for (const auto& [name, value] : chat.parameters.items())
    if (!value.is_number())
      throw Error(ErrorKind::kInput, "{}: the parameter '{}' is a JSON {}, expected a number",
                  where, printable(name, 40), value.type_name());
  if (const Json* tools = json.member("tools"); tools != nullptr && !tools->is_null()) {
    check_tools(*tools, where + ": tools");
    chat.tools = *tools;
  }
  const Json* messages = json.member("messages");
  if (messages == nullptr)
    throw Error(ErrorKind::kInput, "{}: found no messages, expected an array", where);
  // The array of a chat without any message is valid.
  if (!messages->is_array() || !messages->empty())
    chat.messages = normal_messages(*messages, where + ": messages");
  return chat;
}

// The tool calls of a node of the page in OpenAI's form. `count` numbers calls that have no id.
Json calls_of(const Json& node, size_t& count, const std::string& where) {
  Json calls = Json::array();
  const Json* list = member_of(node, "calls", &Json::is_array, where, "a list");
  for (const Json& call : list != nullptr ? *list : Json::array()) {
    ++count;
    const std::string id = text_of(call, "id", where);
    calls.push_back({{"id", id.empty() ? fmt::format("call_{}", count) : id},
                     {"type", "function"},
                     {"function",
                      {{"name", text_of(call, "name", where)},
                       {"arguments", text_of(call, "arguments", where)}}}});
  }
  return calls;
}

// A node of the page as a message, attached files before the text. Returns null for an answer
// without text, reasoning and tool calls.
Json message_of(const Json& node, size_t& call_count, const std::string& where) {
  const std::string role = text_of(node, "role", where);
  if (role != "user" && role != "assistant" && role != "tool")
    throw Error(ErrorKind::kInput,
                "{}: the role of a message is '{}', expected user, assistant or tool", where,
                printable(role, 40));
  std::string text;
  if (const Json* files = member_of(node, "files", &Json::is_array, where, "a list"))
    for (const Json& file : *files)
      text += fmt::format("File {}:\n```\n{}\n```\n\n", text_of(file, "name", where),
                          text_of(file, "text", where));
  text += text_of(node, "text", where);
  const std::string thought = text_of(node, "thought", where);
  Json calls = calls_of(node, call_count, where);
  if (role == "assistant" && text.empty() && thought.empty() && calls.empty()) return nullptr;
  Json message = {{"role", role}, {"content", text}};
  if (!thought.empty()) message["reasoning_content"] = thought;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  if (role == "tool") message["tool_call_id"] = text_of(node, "call", where);
  return message;
}

// Gives results of tools that name none of the last calls the first of them without a result, and
// removes results if there is none.
Json with_call_ids(const Json& messages) {
  Json out = Json::array();
  std::vector<std::string> open;  // calls without a result
  for (Json message : messages) {
    if (const Json* calls = message.member("tool_calls")) {
      open.clear();
      for (const Json& call : *calls) open.push_back(call["id"].string());
    }
    if (message["role"] == Json("tool")) {
      if (open.empty()) continue;
      auto found = std::ranges::find(open, message["tool_call_id"].string());
      if (found == open.end()) found = open.begin();
      message["tool_call_id"] = *found;
      open.erase(found);
    }
    out.push_back(std::move(message));
  }
  return out;
}

// The page stores sampling parameters as the text of its input fields.
Json numbers_of(const Json& fields, const std::string& where) {
  Json out = Json::object();
  for (const auto& [name, value] : fields.items()) {
    const std::optional<Json> number =
        value.is_string() ? maybe_json(value.string()) : std::optional(value);
    if (value == "" || value.is_null()) continue;
    if (!number || !number->is_number())
      throw Error(ErrorKind::kInput, "{}: sampling.{} is {}, expected a number", where,
                  printable(name, 40), printable(dump_json(value), 40));
    out[name] = *number;
  }
  return out;
}

/// The messages of a chat of the page, a tree.
class PageNodes {
 public:
  PageNodes(const Json& nodes, const std::string& where) : where_(where) {
    double newest = 0;
    for (const Json& node : nodes) {
      const Json* made = member_of(node, "made", &Json::is_number, where, "a number");
      const std::string id = text_of(node, "id", where);
      by_id_[id] = &node;
      if (newest_.empty() || (made != nullptr && made->number() > newest)) {
        newest_ = id;
        newest = made != nullptr ? made->number() : 0;
      }
    }
  }

  /// Returns the messages from the root to `leaf`, or to the newest message if `leaf` is unknown. A
  /// cycle ends the branch.
  Json branch(const std::string& leaf) const {
    std::vector<const Json*> backwards;
    std::set<std::string> seen;
    std::string id = by_id_.contains(leaf) ? leaf : newest_;
    for (auto at = by_id_.find(id); at != by_id_.end() && seen.insert(id).second;
         at = by_id_.find(id)) {
      backwards.push_back(at->second);
      id = text_of(*at->second, "parent", where_);
    }
    Json messages = Json::array();
    size_t calls = 0;
    for (size_t i = backwards.size(); i-- > 0;)
      if (Json message = message_of(*backwards[i], calls, where_); !message.is_null())
        messages.push_back(std::move(message));
    return messages;
  }

 private:
  const std::string& where_;
  std::map<std::string, const Json*> by_id_;
  std::string newest_;
};

ChatFile read_page(const Json& json, const std::string& where) {
  check_version(json, where);
  const Json* chats = member_of(json, "chats", &Json::is_array, where, "a list");
  if (chats == nullptr || chats->size() != 1 || !chats->front().is_object())
    throw Error(ErrorKind::kInput,
                "{}: found an export of the web page with {} chats, expected one", where,
                chats == nullptr ? 0 : chats->size());
  const Json& chat = chats->front();
  const Json* nodes = member_of(chat, "nodes", &Json::is_array, where, "a list");
  ChatFile out{.model = text_of(chat, "model", where),
               .parameters = numbers_of(object_of(chat, "sampling", where), where)};
  // The page's setting is "on", "off" or, for the default of the template, empty.
  const std::string thinking = text_of(chat, "thinking", where);
  if (thinking == "on" || thinking == "off") set_thinking(out.template_args, thinking == "on");
  if (const std::string system = text_of(chat, "system", where); !system.empty())
    out.messages.push_back({{"role", "system"}, {"content", system}});
  if (const Json* tools = member_of(chat, "tools", &Json::is_array, where, "a list")) {
    check_tools(*tools, where + ": tools");
    out.tools = *tools;
  }
  if (nodes == nullptr) return out;
  const std::string leaf = text_of(chat, "leaf", where);
  for (const Json& message : with_call_ids(PageNodes(*nodes, where).branch(leaf)))
    out.messages.push_back(message);
  // Arguments of calls become objects, as in a saved chat.
  if (!out.messages.empty()) out.messages = normal_messages(out.messages, where + ": messages");
  return out;
}

}  // namespace

std::string write_chat(const ChatFile& chat) {
  Json json = {{"format", kFormat}, {"version", kVersion}};
  if (!chat.model.empty()) json["model"] = chat.model;
  if (!chat.parameters.empty()) json["parameters"] = chat.parameters;
  if (!chat.template_args.empty()) json["template_args"] = chat.template_args;
  if (!chat.tools.is_null()) json["tools"] = chat.tools;
  json["messages"] = chat.messages;
  return dump_json(json) + "\n";
}

ChatFile read_chat(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  if (json.is_array()) {
    ChatFile chat;
    chat.messages = normal_messages(json, where + ": messages");
    return chat;
  }
  if (!json.is_object())
    throw Error(ErrorKind::kInput,
                "{}: found a JSON {}, expected a saved chat or a list of messages", where,
                json.type_name());
  const Json* format = json.member("format");
  const std::string name = format != nullptr && format->is_string() ? format->string() : "";
  if (name == kFormat) return read_own(json, where);
  if (name == kPageFormat) return read_page(json, where);
  throw Error(
      ErrorKind::kInput,
      "{}: the format is {}, expected \"{}\" (written by /save), \"{}\" (by the web page) or "
      "a list of messages",
      where, format == nullptr ? "missing" : printable(dump_json(*format), 40), kFormat,
      kPageFormat);
}

}  // namespace veery
