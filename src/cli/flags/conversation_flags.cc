#include "cli/flags/conversation_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "chat/reasoning.h"
#include "cli/args/choice.h"
#include "cli/args/input.h"
#include "cli/output/output.h"

namespace veery::cli {
namespace {

constexpr const char* kGroup = "Chat template";

// Whether the rendered prompt depends on the variable that `set` sets.
template <typename Set, typename Value>
bool has_switch(const Chat& chat, const Set& set, const Value& one, const Value& other) {
  const auto text_with = [&](const Value& value) {
    Chat copy(chat);
    Json variables = copy.variables();
    set(variables, value);
    copy.set_variables(std::move(variables));
    copy.set_messages(Json::array({{{"role", "user"}, {"content", "hello"}}}), "a probe");
    return copy.text();
  };
  return text_with(one) != text_with(other);
}

}  // namespace

std::pair<std::string, Json> parse_template_arg(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::kInput, "'{}' is not NAME=VALUE", printable(text, 60));
  const std::string name = text.substr(0, equals), written = text.substr(equals + 1);
  for (const char* own : {"messages", "tools", "add_generation_prompt"})
    if (name == own)
      throw Error(ErrorKind::kInput, "'{}' is set by the chat itself, expected another variable",
                  name);
  std::optional<Json> value = maybe_json(written);
  if (!value)
    throw Error(ErrorKind::kInput,
                "the value of {} is '{}', expected JSON: a number, true, false, null, a list, an "
                "object, or a text in quotes (\"...\")",
                printable(name, 40), printable(written, 60));
  return {name, std::move(*value)};
}

void ConversationFlags::add(Arguments& app) {
  const Option think =
      app.option_function(
             "--think",
             [this](const std::string& word) {
               const bool level = is_reasoning_level(word);
               if (!level && word != "true" && word != "false")
                 throw Misuse("--think",
                              not_one_of(word, {"low", "medium", "high", "true", "false"}));
               think_ = word != "false";
               level_ = level ? word : "";
             },
             "Reason before answering, at LEVEL low, medium or high [the template's]")
          .type_name("[LEVEL]")
          .group(kGroup)
          .choices({"low", "medium", "high"})
          .value_if_absent("true");
  app.flag("--no-think", no_think_, "Answer without reasoning").group(kGroup).excludes(think);
  app.flag("--hide-thinking", hide_thinking_, "Do not print the reasoning").group(kGroup);
  app.option("--template-arg", template_args_,
             "Set a variable of the chat template; VALUE is JSON; repeatable")
      .type_name("NAME=VALUE")
      .group(kGroup);
  app.option("--tools", tools_file_,
             "Functions the model may call: a JSON array in OpenAI's form.\nCalls are printed (as "
             "JSON with -p or -f), never executed.")
      .type_name("FILE")
      .files({"json"})
      .group(kGroup);
  app.option("--load", load_file_,
             "Continue a saved conversation.\nFILE was written by /save or the web page, or is a "
             "JSON array of messages.")
      .type_name("FILE")
      .files({"json"})
      .group(kGroup);
}

std::string ConversationFlags::given() const {
  if (think_) return "--think";
  if (no_think_) return "--no-think";
  if (!template_args_.empty()) return "--template-arg";
  if (has_tools()) return "--tools";
  return loads() ? "--load" : "";
}

void ConversationFlags::read() {
  if (think_) set_thinking(variables_, *think_);
  if (no_think_) set_thinking(variables_, false);
  if (!level_.empty()) set_reasoning_effort(variables_, level_);
  read_value("--template-arg", [this] {
    for (const std::string& text : template_args_) {
      auto [name, value] = parse_template_arg(text);
      variables_[name] = std::move(value);
    }
  });
  if (has_tools()) {
    const std::string where = printable(tools_file_, 200);
    tools_ = parse_json(read_file(tools_file_, kMessagesFile), where);
    check_tools(tools_, where);
  }
  if (loads())
    loaded_ = read_chat(read_file(load_file_, kMessagesFile), printable(load_file_, 200));
}

void ConversationFlags::apply(Chat& chat, const Model& model) const {
  Json variables = loaded_.template_args;
  variables.update(variables_);
  chat.set_variables(std::move(variables));
  if (has_tools() || !loaded_.tools.is_null()) chat.set_tools(has_tools() ? tools_ : loaded_.tools);
  if (loads()) {
    const std::string system = chat.system();
    chat.set_messages(loaded_.messages, "--load");
    if (!system.empty()) chat.set_system(system);
  }
  if (think_ || no_think_) check_thinking(chat, model);
}

void ConversationFlags::check_thinking(const Chat& chat, const Model& model) const {
  const bool wanted = think_.value_or(false);
  if (wanted && !model.answer_format().reasons())
    throw Misuse("--think", fmt::format("{} does not reason: its chat template has no reasoning "
                                        "marks",
                                        escaped(model.path())));
  if (!model.answer_format().reasons()) return;
  const std::string flag = no_think_ ? "--no-think" : "--think";
  if (!level_.empty()) {
    if (!has_switch(chat, set_reasoning_effort, std::string_view("low"), std::string_view("high")))
      write_error("veery: the chat template has no reasoning levels: --think " + level_ +
                  " acts as --think\n");
  } else if (!has_switch(chat, set_thinking, true, false)) {
    write_error("veery: the chat template cannot switch reasoning: " + flag + " has no effect\n");
  }
}

}  // namespace veery::cli
