#include "cli/chat/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"
#include "chat/reasoning.h"
#include "cli/flags/conversation_flags.h"
#include "engine/sequence_breakers.h"
#include "sample/parameters.h"

namespace veery::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Removes the first word from `text` and returns it.
std::string take_word(std::string_view& text) {
  text = trimmed(text);
  const size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  const std::string word(text.substr(0, end));
  text = trimmed(text.substr(end));
  return word;
}

bool truth_of(const std::string& name, std::string_view value) {
  if (value == "on" || value == "true") return true;
  if (value == "off" || value == "false") return false;
  throw Error(ErrorKind::kInput, "{} is '{}', expected on or off", name, printable(value, 40));
}

std::string change_switch(bool& value, const std::string& name, std::string_view text) {
  value = truth_of(name, text);
  return fmt::format("{} is {}", name, value ? "on" : "off");
}

std::string change_thinking(ChatState& state, std::string_view value) {
  const bool level = is_reasoning_level(value);
  const bool wanted = level || value.empty() || truth_of("think", value);
  if (wanted && !state.model.answer_format().reasons())
    throw Error(ErrorKind::kInput,
                "the model does not reason: its chat template has no reasoning marks");
  Json variables = state.chat.variables();
  set_thinking(variables, wanted);
  if (level)
    set_reasoning_effort(variables, value);
  else
    variables.erase("reasoning_effort");
  state.chat.set_variables(std::move(variables));
  return fmt::format("think is {}", level ? value : wanted ? "on" : "off");
}

std::string change_template_arg(ChatState& state, std::string_view value) {
  auto [name, json] = parse_template_arg(std::string(value));
  Json variables = state.chat.variables();
  variables[name] = json;
  state.chat.set_variables(std::move(variables));
  return fmt::format("{} is {}", printable(name, 40), printable(dump_json(json), 60));
}

std::string change_system(ChatState& state, std::string_view value) {
  // Ollama's syntax has quotes around it.
  if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
    value = value.substr(1, value.size() - 2);
  state.chat.set_system(std::string(value));
  return value.empty() ? "there is no system message" : "the system message is set";
}

std::string change_parameter(ChatState& state, const std::string& given, std::string_view value) {
  const std::string name = given == "num_predict" || given == "n_predict" ? "max_tokens" : given;
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc() || end != value.data() + value.size())
    throw Error(ErrorKind::kInput, "{} is '{}', expected a number", name, printable(value, 40));
  apply_parameters(state.options, {{name, number}}, "/set");
  SamplerOptions& sampling = state.options.sampling;
  if (sampling.dry_multiplier > 0 && !sampling.dry_breakers)
    sampling.dry_breakers = sequence_breakers(state.model.tokenizer(), state.model.config().vocab,
                                              usual_sequence_breakers());
  return fmt::format("{} is {}", name, value);
}

bool is_parameter(std::string_view name) {
  return name == "max_tokens" || name == "num_predict" || name == "n_predict" || name == "seed" ||
         find_sampling_parameter(name) != nullptr;
}

// Shortens the text to one line.
std::string shown_text(const std::string& text) {
  return text.empty() ? "none" : printable(text, 200);
}

std::string tool_names(const Json& tools) {
  std::vector<std::string> names;
  for (const Json& tool : tools.is_array() ? tools : Json::array())
    names.push_back(printable(tool["function"]["name"].string(), 60));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const std::vector<std::string>& setting_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"context_shift", "hide_thinking", "max_tokens",   "quiet",
                                    "seed",          "system",        "template_arg", "think"};
    for (const SamplingParameter& row : sampling_parameters()) all.emplace_back(row.name);
    std::ranges::sort(all);
    return all;
  }();
  return names;
}

std::string change_setting(ChatState& state, std::string_view words) {
  std::string name = take_word(words);
  if (name == "parameter") name = take_word(words);
  std::ranges::replace(name, '-', '_');
  if (name == "think") return change_thinking(state, words);
  if (name == "nothink" || name == "no_think") return change_thinking(state, "off");
  if (name == "verbose" && words.empty()) return change_switch(state.quiet, "quiet", "off");
  if (name == "quiet") return change_switch(state.quiet, name, words.empty() ? "on" : words);
  if (name == "hide_thinking") return change_switch(state.hide_thinking, name, words);
  if (name == "context_shift") return change_switch(state.context_shift, name, words);
  if (name == "template_arg") return change_template_arg(state, words);
  if (name == "system") return change_system(state, words);
  if (is_parameter(name)) return change_parameter(state, name, words);
  throw Error(ErrorKind::kInput, "unknown setting '{}', expected one of {}", printable(name, 40),
              fmt::join(setting_names(), ", "));
}

std::string shown_settings(const ChatState& state, int64_t context) {
  const ChatFile file = chat_file_of(state);
  std::string parameters;
  for (const auto& [name, value] : file.parameters.items())
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", name, dump_json(value));
  const size_t used = state.chat.messages().empty() ? 0 : state.chat.prompt().size();
  return fmt::format(
      "model          {}\n"
      "conversation   {} messages, {} of {} tokens of the context\n"
      "system         {}\n"
      "parameters     {}\n"
      "tools          {}\n"
      "template_args  {}\n"
      "context_shift  {}\n"
      "hide_thinking  {}\n",
      printable(state.model_name, 200), state.chat.messages().size(), used, context,
      shown_text(state.chat.system()), parameters, tool_names(file.tools),
      file.template_args.empty() ? "none" : printable(dump_json(file.template_args), 200),
      state.context_shift ? "on" : "off", state.hide_thinking ? "on" : "off");
}

std::string shown_messages(const ChatState& state) {
  std::string out;
  for (const Json& message : state.chat.messages()) {
    out += fmt::format("[{}]\n", printable(message.value("role", "?"), 40));
    for (const char* key : {"content", "tool_calls"}) {
      const Json* part = message.member(key);
      if (part == nullptr || part->is_null() || part->empty()) continue;
      const std::string text = part->is_string() ? part->string() : dump_json(*part);
      if (!text.empty()) out += terminal_text(text) + "\n";
    }
  }
  return out.empty() ? "There are no messages.\n" : out;
}

}  // namespace veery::cli
