#include "text/chat/generic_calls.h"

#include <algorithm>
#include <utility>

#include "text/answer/answer_format.h"

namespace veery {
namespace {

std::string text_of(const Json& message) {
  const Json* content = message.member("content");
  return content != nullptr && content->is_string() ? content->string() : std::string();
}

// Appends `more` on a new line.
void append(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

bool has_role(const Json& message, std::string_view role) {
  const Json* found = message.is_object() ? message.member("role") : nullptr;
  return found != nullptr && *found == role;
}

// Replaces the placeholder of a call's id, which the server generates, by an example.
std::string filled(std::string_view part) {
  std::string text(part);
  for (size_t at = text.find(CallForm::kId); at != std::string::npos; at = text.find(CallForm::kId))
    text.replace(at, CallForm::kId.size(), "a1b2c3d4e");
  return text;
}

std::string calls_text(const Json& calls, const CallForm& form) {
  std::string text;
  for (const Json& call : calls) {
    const Json* function = call.is_object() ? call.member("function") : nullptr;
    if (function == nullptr || !function->is_object()) continue;
    const Json name = function->value("name", Json(""));
    const Json arguments = function->value("arguments", Json::object());
    const bool joined = !text.empty() && !form.separator.empty();
    if (!text.empty() && !joined) append(text, "");
    text += filled(joined ? form.separator : form.open);
    text += name.is_string() ? name.string() : std::string();
    text += filled(form.middle);
    text += arguments.is_string() ? arguments.string() : spaced_json(arguments);
    if (form.separator.empty()) text += filled(form.close);
  }
  if (!text.empty() && !form.separator.empty()) text += filled(form.close);
  return text;
}

std::string description_of(const Json& tools, const CallForm& form) {
  std::string text = "You can call these tools, one a line:\n";
  for (const Json& tool : tools) {
    const Json* function = tool.is_object() ? tool.member("function") : nullptr;
    text += spaced_json(function != nullptr ? *function : tool) + '\n';
  }
  const MemberMarks& marks = form.members;
  const bool json = marks.key.empty();
  text += json ? "\nTo call a tool, answer in this form, with its name and its arguments as JSON:\n"
               : "\nTo call a tool, answer in this form, with its name and its arguments:\n";
  text += filled(form.open) + "NAME" + filled(form.middle) +
          (json ? R"({"KEY": "VALUE"})" : marks.key + "KEY" + marks.text + "VALUE" + marks.end) +
          filled(form.close);
  return text + "\nThe result follows as a message. If no tool is needed, answer in plain text.";
}

}  // namespace

std::string spaced_json(const Json& value) {
  if (!value.is_object() && !value.is_array()) return dump_json(value);
  std::string text;
  const auto separate = [&] { text += text.empty() ? "" : ", "; };
  if (value.is_array()) {
    for (const Json& item : value) separate(), text += spaced_json(item);
    return '[' + text + ']';
  }
  for (const auto& [key, member] : value.items())
    separate(), text += dump_json(Json(key)) + ": " + spaced_json(member);
  return '{' + text + '}';
}

CallForm generic_call_form(const AnswerFormat& format) {
  for (const AnswerFeature* feature : format.features()) {
    const auto& marks = feature->marks;
    const bool code = marks.size() == 2 && marks[0].to == AnswerMode::kCode;
    if (code && marks[1].to == AnswerMode::kStart)
      return {std::string(marks[0].text) + R"([{"name": ")", R"(", "arguments": )",
              "}]" + std::string(marks[1].text), R"(}, {"name": ")"};
  }
  return {"<tool_call>\n{\"name\": \"", R"(", "arguments": )", "}\n</tool_call>",
          "}\n</tool_call>\n<tool_call>\n{\"name\": \""};
}

Json completed_tools(const Json& tools, bool properties) {
  if (!tools.is_array()) return tools;
  Json out = Json::array();
  for (const Json& tool : tools) {
    Json copy = tool;
    const Json* function = tool.is_object() ? tool.member("function") : nullptr;
    if (function != nullptr && function->is_object()) {
      const auto lacks = [&](const char* key) {
        const Json* found = function->member(key);
        return found == nullptr || found->is_null();
      };
      if (!tool.contains("type")) copy["type"] = "function";
      // Fields for servers are not part of the prompt.
      copy.erase("cache_control");
      copy["function"].erase("strict");
      if (lacks("description")) copy["function"]["description"] = "";
      if (lacks("parameters") || function->at("parameters").empty())
        copy["function"]["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
      else if (properties && function->at("parameters").is_object() &&
               !function->at("parameters").contains("properties"))
        copy["function"]["parameters"]["properties"] = Json::object();
    }
    out.push_back(std::move(copy));
  }
  return out;
}

Json with_described_tools(const Json& messages, const Json& tools, const CallForm& form,
                          bool system) {
  const std::string text = description_of(tools, form);
  Json out = messages;
  if (system) {
    if (!out.empty() && (has_role(out[0], "system") || has_role(out[0], "developer")))
      out[0]["content"] = text_of(out[0]).empty() ? text : text_of(out[0]) + "\n\n" + text;
    else
      out.push_front({{"role", "system"}, {"content", text}});
    return out;
  }
  for (Json& message : out)
    if (has_role(message, "user")) {
      message["content"] = text + "\n\n" + text_of(message);
      break;
    }
  return out;
}

Json with_calls_as_text(const Json& messages, const CallForm& form) {
  Json out = Json::array();
  bool results = false;  // the last message contains results
  for (const Json& message : messages) {
    const bool result = has_role(message, "tool");
    if (result || (results && has_role(message, "user"))) {
      const std::string text =
          result ? "<tool_response>\n" + text_of(message) + "\n</tool_response>" : text_of(message);
      if (!results) out.push_back({{"role", "user"}, {"content", ""}});
      std::string all = text_of(out.back());
      append(all, text);
      out.back()["content"] = all;
      results = result;
      continue;
    }
    results = false;
    Json copy = message;
    const Json* calls = message.is_object() ? message.member("tool_calls") : nullptr;
    if (calls != nullptr && calls->is_array()) {
      std::string text = text_of(message);
      append(text, calls_text(*calls, form));
      copy["content"] = text;
      copy.erase("tool_calls");
    }
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace veery
