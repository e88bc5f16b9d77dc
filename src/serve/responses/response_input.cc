#include "serve/responses/response_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "serve/api/api_error.h"
#include "serve/api/tool_choice.h"
#include "text/common/base64.h"

namespace veery::serve {
namespace {

constexpr std::string_view kSeal = "veery:";

// Returns a text, or the joined texts of a list of parts.
std::string parts_text(const Json& content, const std::string& where) {
  if (content.is_string()) return content.string();
  if (!content.is_array()) return dump_json(content);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], fmt::format("{}[{}].", where, i));
    const std::string type = part.text("type").value_or("input_text");
    if (type == "refusal") {
      text += part.require_text("refusal");
    } else if (type == "input_text" || type == "output_text" || type == "text" ||
               type == "summary_text" || type == "reasoning_text") {
      text += part.require_text("text");
    } else {
      throw ApiError(400,
                     fmt::format("{}[{}]: a part of type '{}' is not supported: models here read "
                                 "text only",
                                 where, i, printable(type, 40)),
                     where.substr(0, where.find(']') + 1), "unsupported_content");
    }
  }
  return text;
}

std::string unsealed(const std::string& text) {
  if (!text.starts_with(kSeal)) return {};
  return decode_base64(text.substr(kSeal.size())).value_or("");
}

// Returns whether the provider ran this call. The message after it holds the result.
bool ran_elsewhere(const std::string& type) {
  constexpr std::string_view kTypes[] = {
      "web_search_call", "file_search_call",     "image_generation_call", "code_interpreter_call",
      "mcp_list_tools",  "mcp_approval_request", "mcp_approval_response"};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

}  // namespace

std::string sealed_reasoning(const std::string& text) {
  return std::string(kSeal) + encode_base64(text);
}

void ResponseInput::add_instructions(const std::string& text) {
  messages_.push_back({{"role", "system"}, {"content", text}});
}

void ResponseInput::add_user(const std::string& text) {
  flush();
  messages_.push_back({{"role", "user"}, {"content", text}});
}

Json ResponseInput::take() {
  flush();
  return std::move(messages_);
}

Json& ResponseInput::turn() {
  if (turn_.is_null()) turn_ = {{"role", "assistant"}, {"content", ""}};
  return turn_;
}

void ResponseInput::flush() {
  if (!turn_.is_null()) messages_.push_back(std::exchange(turn_, Json()));
}

void ResponseInput::add(const Json& json, const std::string& where) {
  const Fields item(json, where + ".");
  const std::string type = item.text("type").value_or("message");
  if (type == "message") return add_message(item, where);
  if (type == "reasoning") return add_reasoning(item);
  if (type == "function_call")
    return add_call(item.require_text("call_id"),
                    function_name(item.text("namespace").value_or(""), item.require_text("name")),
                    item.require_text("arguments"));
  if (type == "custom_tool_call")
    return add_call(item.require_text("call_id"),
                    function_name(item.text("namespace").value_or(""), item.require_text("name")),
                    ResponseTools::custom_arguments(item.require_text("input")));
  if (type == "additional_tools")
    return tools_.add(item.require_array("tools"), item.name("tools"), true);
  if (add_special(type, item) || ran_elsewhere(type)) return;
  if (type.ends_with("_output")) return add_output(item, where);
  throw ApiError(400, fmt::format("{}.type '{}' is not supported", where, printable(type, 60)),
                 where, "unsupported_content");
}

// Adds a call of a client's tool that has its own item type. Returns false for other types.
bool ResponseInput::add_special(const std::string& type, const Fields& item) {
  const auto id = [&] {
    return item.text("call_id").value_or(item.text("id").value_or(std::string()));
  };
  const auto arguments = [&](const char* name) {
    const Json* found = item.find(name);
    return found != nullptr ? *found : Json::object();
  };
  if (type == "local_shell_call") {
    add_call(id(), "local_shell", arguments("action"));
  } else if (type == "shell_call") {
    add_call(id(), "shell", arguments("action"));
  } else if (type == "apply_patch_call") {
    add_call(id(), "apply_patch", arguments("operation"));
  } else if (type == "tool_search_call") {
    if (!id().empty()) add_call(id(), "tool_search", arguments("arguments"));
  } else if (type == "mcp_call") {
    add_call(id(), item.require_text("name"), arguments("arguments"));
    flush();
    messages_.push_back(
        {{"role", "tool"},
         {"tool_call_id", id()},
         {"content", item.text("output").value_or(item.text("error").value_or(""))}});
  } else {
    return false;
  }
  return true;
}

void ResponseInput::add_message(const Fields& item, const std::string& where) {
  const Json* content = item.find("content");
  if (content == nullptr) item.fail("content", "a text or a list of parts");
  const std::string role = item.require_text("role");
  if (role != "system" && role != "developer" && role != "user" && role != "assistant")
    item.fail("role", "system, developer, user or assistant");
  const std::string text = parts_text(*content, where + ".content");
  if (role != "assistant") {
    flush();
    messages_.push_back({{"role", role}, {"content", text}});
    return;
  }
  if (!turn_.is_null() && (turn_.contains("tool_calls") || turn_["content"] != "")) flush();
  turn()["content"] = text;
}

void ResponseInput::add_reasoning(const Fields& item) {
  std::string text;
  if (const Json* content = item.array("content"))
    text = parts_text(*content, item.name("content"));
  if (text.empty()) text = unsealed(item.text("encrypted_content").value_or(""));
  if (const Json* summary = item.array("summary"); summary != nullptr && text.empty())
    text = parts_text(*summary, item.name("summary"));
  if (text.empty()) return;  // encrypted by another provider
  if (!turn_.is_null() && (turn_.contains("tool_calls") || turn_["content"] != "")) flush();
  Json& current = turn();
  const std::string before = current.value("reasoning_content", "");
  current["reasoning_content"] = before.empty() ? text : before + "\n\n" + text;
}

void ResponseInput::add_call(const std::string& id, const std::string& name, Json arguments) {
  turn()["tool_calls"].push_back(
      {{"id", id},
       {"type", "function"},
       {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

void ResponseInput::add_output(const Fields& item, const std::string& where) {
  flush();
  std::string text;
  if (const Json* tools =
          item.array("tools")) {  // found by a search; the model may call them from now on
    tools_.add(*tools, item.name("tools"), false);
    text = dump_json(*tools);
  } else {
    const Json* output = item.find("output");
    if (output == nullptr) item.fail("output", "a text or a list of parts");
    const bool typed = output->is_array() && !output->empty() && (*output)[0].is_object() &&
                       (*output)[0].contains("type");
    text =
        output->is_array() && !typed ? dump_json(*output) : parts_text(*output, where + ".output");
  }
  const std::string id = item.text("call_id").value_or(item.text("id").value_or(std::string()));
  if (id.empty()) item.fail("call_id", "a text");
  messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", text}});
}

}  // namespace veery::serve
