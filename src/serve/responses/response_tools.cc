#include "serve/responses/response_tools.h"

#include <fmt/format.h>

#include "serve/api/fields.h"
#include "serve/api/tool_choice.h"

namespace veery::serve {
namespace {

// Returns the description of a custom tool with its grammar, as the model must know it.
std::string custom_description(const Fields& tool) {
  std::string text = tool.text("description").value_or("");
  const Json* given = tool.object("format");
  if (given == nullptr) return text;
  const Fields format(*given, tool.name("format."));
  const std::string type = format.require_text("type");
  if (type == "text") return text;
  if (type != "grammar") format.fail("type", "text or grammar");
  const std::string syntax = format.require_text("syntax");
  if (syntax != "lark" && syntax != "regex") format.fail("syntax", "lark or regex");
  return text + fmt::format("{}The input follows this grammar ({}):\n{}",
                            text.empty() ? "" : "\n\n", syntax, format.require_text("definition"));
}

Json custom_parameters() {
  return {{"type", "object"},
          {"properties",
           {{"input", {{"type", "string"}, {"description", "The whole input of the tool"}}}}},
          {"required", Json::array({"input"})},
          {"additionalProperties", false}};
}

}  // namespace

void ResponseTools::add(const Json& tools, const std::string& where, bool shown) {
  for (size_t i = 0; i < tools.size(); ++i)
    add_one(tools[i], fmt::format("{}[{}].", where, i), {}, shown);
}

void ResponseTools::add_one(const Json& json, const std::string& where, const std::string& space,
                            bool shown) {
  const Fields tool(json, where);
  const std::string type = tool.text("type").value_or("function");
  if (type == "namespace") {
    const std::string name = tool.require_text("name");
    const Json& inner = tool.require_array("tools");
    for (size_t i = 0; i < inner.size(); ++i)
      add_one(inner[i], fmt::format("{}tools[{}].", where, i), name, shown);
    return;
  }
  const bool custom = type == "custom";
  if (!custom && type != "function") return;
  const std::string name = tool.require_text("name");
  std::string description =
      custom ? custom_description(tool) : tool.text("description").value_or("");
  if (const Json* results = tool.object("output_schema"))
    description += "\nResults: " + dump_json(*results);
  const std::string function = function_name(space, name);
  const Json* parameters = tool.object("parameters");
  Json described = {{"type", "function"},
                    {"function",
                     {{"name", function},
                      {"description", description},
                      {"parameters", custom                  ? custom_parameters()
                                     : parameters != nullptr ? *parameters
                                                             : Json::object()},
                      {"strict", !custom && tool.flag("strict").value_or(false)}}}};
  tools_[function] = {name, space, custom};
  if (shown && !tool.flag("defer_loading").value_or(false)) shown_.push_back(described);
  // Forced calls are constrained by a regular expression; other grammars are only described.
  const Json* format = custom ? tool.object("format") : nullptr;
  if (format != nullptr && format->value("syntax", Json()) == "regex")
    described["function"]["parameters"]["properties"]["input"]["pattern"] =
        "^(" + (*format)["definition"].string() + ")$";
  callable_.push_back(std::move(described));
}

ResponseTools::Tool ResponseTools::find(const std::string& function) const {
  const auto found = tools_.find(function);
  return found == tools_.end() ? Tool{function, {}, false} : found->second;
}

std::string CustomInput::push(std::string_view arguments) {
  buffer_ += arguments;
  decode();
  std::string fresh = text_.substr(returned_);
  returned_ = text_.size();
  return fresh;
}

std::string CustomInput::finish() {
  decode();
  // Arguments that are not an object with one string are the input itself.
  if (state_ == State::kBefore || state_ == State::kPlain) {
    const std::optional<Json> json = maybe_json(buffer_);
    const Json* input = json && json->is_object() ? json->member("input") : nullptr;
    if (input == nullptr)
      text_ = json && json->is_string() ? json->string() : buffer_;
    else
      text_ = input->is_string() ? input->string() : dump_json(*input);
  }
  return text_.substr(returned_);
}

void CustomInput::decode() {
  if (state_ == State::kBefore) {
    // The beginning of the only member: {"input": "
    constexpr std::string_view kExpected = "{\"input\":\"";
    size_t matched = 0, i = 0;
    for (; i < buffer_.size() && matched < kExpected.size(); ++i) {
      const char c = buffer_[i];
      const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (c == kExpected[matched])
        ++matched;
      else if (!blank || (matched > 1 && matched < 8))
        break;
    }
    if (matched == kExpected.size()) {
      state_ = State::kInside;
      at_ = i;
    } else if (i < buffer_.size()) {
      state_ = State::kPlain;
    }
  }
  while (state_ == State::kInside && at_ < buffer_.size()) {
    const char c = buffer_[at_];
    if (c == '"') {
      state_ = State::kOver;
    } else if (c != '\\') {
      text_ += c;
      ++at_;
    } else if (!decode_escape()) {
      return;
    }
  }
}

// Returns false if the escape is incomplete.
bool CustomInput::decode_escape() {
  const size_t left = buffer_.size() - at_;
  if (left < 2) return false;
  size_t length = buffer_[at_ + 1] == 'u' ? 6 : 2;
  if (left < length) return false;
  // A high surrogate needs the low surrogate after it.
  const bool high = length == 6 && (buffer_[at_ + 2] == 'd' || buffer_[at_ + 2] == 'D') &&
                    std::string_view("89abAB").find(buffer_[at_ + 3]) != std::string_view::npos;
  if (high) {
    const std::string_view next = std::string_view(buffer_).substr(at_ + 6, 2);
    const bool pair = next == "\\u";
    if (next.empty() || next == "\\" || (pair && left < 12)) return false;
    if (pair) length = 12;
  }
  const std::optional<Json> text = maybe_json("\"" + buffer_.substr(at_, length) + "\"");
  text_ += text && text->is_string() ? text->string() : "\xEF\xBF\xBD";
  at_ += length;
  return true;
}

}  // namespace veery::serve
