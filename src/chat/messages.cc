#include "chat/messages.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/printable.h"

namespace veery {
namespace {

/// The position of a message, for errors.
struct Place {
  std::string_view where;
  size_t index;

  [[noreturn]] void fail(std::string_view what) const { throw MessageError(where, index, what); }
};

// Returns a text, or the joined texts of a list of parts.
std::string content_text(const Json& content, const Place& place) {
  if (content.is_string()) return content.string();
  if (content.is_object()) return content_text(Json::array({content}), place);
  if (!content.is_array())
    place.fail(fmt::format("content is a JSON {}, expected a text or a list of parts",
                           content.type_name()));
  std::string text;
  for (const Json& part : content) {
    if (part.is_string()) {
      text += part.string();
      continue;
    }
    const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                 ? part["type"].string()
                                 : "";
    const bool known =
        type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
    if (!known)
      place.fail(fmt::format("found a part of type '{}', expected text", printable(type, 40)));
    const Json* value = part.member(type == "refusal" ? "refusal" : "text");
    if (value == nullptr || !value->is_string())
      place.fail("found a part of type text without text");
    text += value->string();
  }
  return text;
}

// Templates expect the arguments of calls as objects.
Json normal_calls(const Json& calls, const Place& place) {
  if (!calls.is_array())
    place.fail(fmt::format("tool_calls is a JSON {}, expected an array", calls.type_name()));
  Json result = Json::array();
  for (const Json& call : calls) {
    const Json* function = call.is_object() ? call.member("function") : nullptr;
    if (function == nullptr || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      place.fail("found a tool call without a function name");
    Json copy = call;
    copy["type"] = "function";
    Json arguments = function->value("arguments", Json(""));
    if (arguments.is_string()) {
      std::optional<Json> parsed = maybe_json(arguments.string());
      if (parsed && parsed->is_object())
        arguments = std::move(*parsed);
      else if (arguments.string().empty())
        arguments = Json::object();
    }
    copy["function"]["arguments"] = std::move(arguments);
    result.push_back(std::move(copy));
  }
  return result;
}

}  // namespace

void check_messages(const Json& messages, std::string_view where) {
  if (!messages.is_array())
    throw Error(ErrorKind::kInput,
                "{}: found a JSON {}, expected an array of messages such as "
                R"([{{"role": "user", "content": "Hello"}}])",
                where, messages.type_name());
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object())
      throw Error(ErrorKind::kInput, "{}: message {} is a JSON {}, expected an object with a role",
                  where, i, message.type_name());
    const auto role = message.find("role");
    if (role == message.end())
      throw Error(ErrorKind::kInput, "{}: message {} has no role, expected one such as \"user\"",
                  where, i);
    if (!role->is_string() || role->string().empty())
      throw Error(ErrorKind::kInput, "{}: the role of message {} is {}, expected a text", where, i,
                  role->is_string() ? "empty" : fmt::format("a JSON {}", role->type_name()));
  }
}

Json normal_messages(const Json& messages, std::string_view where) {
  if (!messages.is_array())
    throw Error(ErrorKind::kInput, "{} is a JSON {}, expected an array", where,
                messages.type_name());
  if (messages.empty()) throw Error(ErrorKind::kInput, "{} is empty, expected one or more", where);
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const Place place{where, i};
    if (!message.is_object())
      place.fail(fmt::format("is a JSON {}, expected an object", message.type_name()));
    const Json* role = message.member("role");
    if (role == nullptr || !role->is_string()) place.fail("has no role");
    std::string name = role->string();
    if (name == "function") name = "tool";
    if (name != "system" && name != "developer" && name != "user" && name != "assistant" &&
        name != "tool")
      place.fail(
          fmt::format("its role is '{}', expected system, developer, user, assistant "
                      "or tool",
                      printable(name, 40)));
    Json copy = message;
    copy["role"] = name;
    const Json* content = message.member("content");
    const Json* calls = message.member("tool_calls");
    const bool called = calls != nullptr && !calls->is_null();
    if (content != nullptr && !content->is_null())
      copy["content"] = content_text(*content, place);
    else if (name == "assistant")
      copy["content"] = "";
    else
      place.fail("has no content");
    copy.erase("tool_calls");
    if (called && !(calls->is_array() && calls->empty()))
      copy["tool_calls"] = normal_calls(*calls, place);
    result.push_back(std::move(copy));
  }
  return result;
}

void check_tools(const Json& tools, std::string_view where) {
  if (!tools.is_array())
    throw Error(ErrorKind::kInput,
                "{} is a JSON {}, expected an array of functions such as "
                R"([{{"type": "function", "function": {{"name": "f", "parameters": {{}}}}}}])",
                where, tools.type_name());
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json& tool = tools[i];
    const Json* function = tool.is_object() ? tool.member("function") : nullptr;
    const Json* name =
        function != nullptr && function->is_object() ? function->member("name") : nullptr;
    if (name == nullptr || !name->is_string())
      throw Error(ErrorKind::kInput, "{}[{}] has no function with a name", where, i);
  }
}

}  // namespace veery
