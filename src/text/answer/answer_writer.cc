#include "text/answer/answer_writer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/answer/call_code.h"

namespace veery {
namespace {

using Kind = AnswerDelta::Kind;

constexpr size_t kLongestName = 128;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns the escaped content of a JSON string, without quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out;
}

bool is_object(const std::string& text) {
  try {
    return parse_json(text, "arguments").is_object();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return false;
  }
}

const Json* member(const Json* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(std::string(key));
  return found == object->end() ? nullptr : &*found;
}

// Returns the function of {"type": "function", "function": {...}}, or the tool itself.
const Json* function_of(const Json& tool) {
  const Json* inner = member(&tool, "function");
  return inner != nullptr ? inner : &tool;
}
bool is_called(const Json& tool, std::string_view name) {
  const Json* given = member(function_of(tool), "name");
  return given != nullptr && given->is_string() && given->string() == name;
}

}  // namespace

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.:/$").find(c) != std::string_view::npos;
}

bool takes_text(const Json& parameters, std::string_view name) {
  const Json* schema = member(member(&parameters, "properties"), name);
  if (const Json* type = member(schema, "type")) return type->is_string() && *type == "string";
  if (const Json* value = member(schema, "const")) return value->is_string();
  const Json* values = member(schema, "enum");
  return values != nullptr && values->is_array() && !values->empty() &&
         std::all_of(values->begin(), values->end(), [](const Json& v) { return v.is_string(); });
}

Json to_message(const ParsedAnswer& answer) {
  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (answer.content.empty() && !answer.calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.calls) {
    Json made = Json::object();
    if (!call.id.empty()) made["id"] = call.id;
    made["type"] = "function";
    made["function"] = {
        {"name", call.name},
        {"arguments", call.valid ? parse_json(call.arguments, "arguments") : Json(call.arguments)}};
    message["tool_calls"].push_back(std::move(made));
  }
  return message;
}

void AnswerWriter::add(Kind kind, std::string_view text) {
  const size_t call = kind == Kind::kContent || kind == Kind::kReasoning ? 0
                      : kind == Kind::kCall                              ? answer_.calls.size()
                                                                         : answer_.calls.size() - 1;
  const bool joins =
      (kind == Kind::kContent || kind == Kind::kReasoning || kind == Kind::kArguments) &&
      !deltas_.empty() && deltas_.back().kind == kind && deltas_.back().call == call;
  if (joins)
    deltas_.back().text += text;
  else
    deltas_.push_back({kind, std::string(text), call});
}

void AnswerWriter::text(Kind kind, std::string_view text) {
  if (text.empty()) return;
  add(kind, text);
  (kind == Kind::kContent ? answer_.content : answer_.reasoning) += text;
}

bool AnswerWriter::knows(std::string_view name) const {
  if (!tools_.is_array() || tools_.empty()) return true;
  return std::any_of(tools_.begin(), tools_.end(),
                     [&](const Json& tool) { return is_called(tool, name); });
}

// "functions.f:0" is call 0 of function f; the whole text is the id.
bool AnswerWriter::begin(std::string_view name, std::string_view id) {
  constexpr std::string_view kNamespace = "functions.";
  name = trimmed(name);
  id = trimmed(id);
  if (name.starts_with(kNamespace)) {
    const size_t number = name.rfind(':');
    if (number != std::string_view::npos && id.empty()) id = name;
    name = name.substr(kNamespace.size(), std::min(number, name.size()) - kNamespace.size());
  }
  if (!is_name(name)) return false;
  add(Kind::kCall, name);
  answer_.calls.push_back({.id = std::string(id), .name = std::string(name)});
  in_call_ = true;
  has_values_ = false;
  return true;
}

void AnswerWriter::arguments(std::string_view text) {
  if (text.empty()) return;
  add(Kind::kArguments, text);
  answer_.calls.back().arguments += text;
}

bool AnswerWriter::is_string(std::string_view key) const {
  if (!tools_.is_array()) return false;
  for (const Json& tool : tools_) {
    if (!is_called(tool, answer_.calls.back().name)) continue;
    const Json* parameters = member(function_of(tool), "parameters");
    return parameters != nullptr && takes_text(*parameters, key);
  }
  return false;
}

void AnswerWriter::begin_value(std::string_view key, Value kind) {
  key = trimmed(key);
  arguments(fmt::format("{}\"{}\":", has_values_ ? "," : "{", escaped(key)));
  has_values_ = in_value_ = true;
  held_.clear();
  kind_ = kind == Value::kGuess && is_string(key) ? Value::kText : kind;
  if (kind_ == Value::kText) arguments("\"");
}

void AnswerWriter::value(std::string_view text) {
  if (kind_ == Value::kText)
    arguments(escaped(text));
  else
    held_ += text;
}

void AnswerWriter::end_value() {
  if (!std::exchange(in_value_, false)) return;
  if (kind_ == Value::kText) return arguments("\"");
  const auto literal = read_literal(held_);
  if (literal && (kind_ == Value::kJson || !literal->is_string()))
    arguments(dump_json(*literal));
  else
    arguments("\"" + escaped(held_) + "\"");
}

void AnswerWriter::end(bool complete) {
  if (!std::exchange(in_call_, false)) return;
  end_value();
  ToolCall& call = answer_.calls.back();
  if (has_values_) arguments("}");
  if (call.arguments.empty()) arguments("{}");
  call.complete = complete;
  call.valid = is_object(call.arguments);
  if (!call.complete || !call.valid) broken();
  add(Kind::kCallEnd, {});
}

}  // namespace veery
