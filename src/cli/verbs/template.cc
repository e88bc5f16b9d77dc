// template.cc: `veery template`: renders a conversation with a chat template.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "chat/messages.h"
#include "cli/args/arguments.h"
#include "cli/args/input.h"
#include "cli/args/model_arguments.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "engine/model.h"
#include "text/chat/chat_text.h"

namespace veery::cli {
namespace {

// Parses "2024-05-17T12:34:56" or a date alone, without a time zone, to seconds since 1970.
int64_t parse_clock(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const int found = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &used);
  auto rest = std::string_view(text).substr(static_cast<size_t>(used));
  int more = 0;
  const bool timed =
      found == 3 && !rest.empty() && (rest[0] == 'T' || rest[0] == ' ') &&
      std::sscanf(rest.data() + 1, "%2d:%2d:%2d%n", &hour, &minute, &second, &more) == 3;
  if (timed) rest.remove_prefix(static_cast<size_t>(more) + 1);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  const bool valid = found == 3 && date.ok() && rest.empty() && hour >= 0 && hour < 24 &&
                     minute >= 0 && minute < 60 && second >= 0 && second < 61;
  if (!valid)
    throw Misuse("--now",
                 fmt::format("found '{}', expected a time such as 2024-05-17T12:34:56", text));
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * int64_t{86400} + hour * 3600 + minute * 60 + second;
}

Json read_json(const std::string& path) { return parse_json(read_file(path, kMessagesFile), path); }

struct Inputs {
  Json messages;
  Json more = Json::object();  ///< further variables of the template
};

// The paths of tools and variables may be empty.
Inputs read_inputs(const std::string& messages, const std::string& tools,
                   const std::string& variables) {
  Inputs inputs{.messages = read_json(messages)};
  check_messages(inputs.messages, messages);
  if (!variables.empty()) inputs.more = read_json(variables);
  if (!inputs.more.is_object())
    throw Error(ErrorKind::kInput, "{}: found a JSON {}, expected an object", variables,
                inputs.more.type_name());
  if (tools.empty()) return inputs;
  Json list = read_json(tools);
  const bool valid = list.is_null() ||
                     (list.is_array() &&
                      std::ranges::all_of(list, [](const Json& tool) { return tool.is_object(); }));
  if (!valid)
    throw Error(ErrorKind::kInput, "{}: found a JSON {}, expected an array of objects", tools,
                list.is_array() ? "array of other values" : list.type_name());
  inputs.more["tools"] = std::move(list);
  return inputs;
}

// Returns the template called `name` or, as transformers does, "tool_use" if there are tools, else
// "default".
std::string source_of(const std::string& path, const std::string& name, const Json& variables) {
  const ChatTemplateSources sources = load_template_sources(path);
  if (!name.empty()) {
    if (const std::string* found = sources.find(name)) return *found;
    throw Misuse("--template", fmt::format("found '{}', expected one of the model's templates: {}",
                                           escaped(name), sources.names()));
  }
  const Json* tools = variables.member("tools");
  const bool has_tools = tools != nullptr && tools->is_array() && !tools->empty();
  const std::string* found = has_tools ? sources.find("tool_use") : nullptr;
  if (found == nullptr) found = sources.find("default");
  if (found == nullptr) throw Error(ErrorKind::kInput, "{}: the model has no chat template", path);
  return *found;
}

}  // namespace

void template_verb(std::vector<std::string> arguments) {
  ModelArguments model;
  std::string template_file, name, messages, tools, variables, now;
  bool prompt = false;
  Arguments app("template",
                "Renders a conversation with a chat template and prints it, byte for byte.",
                "  veery template model.gguf --messages chat.json --add-generation-prompt");
  model.add_path(app, false);
  app.option("--template-file", template_file, "Read the template from FILE instead of a model")
      .type_name("FILE")
      .files({"jinja", "j2", "txt"});
  app.option("--template", name,
             "Use this template of the model [tool_use with --tools, else default]")
      .type_name("NAME");
  app.option("--messages", messages, "JSON array of messages; -: standard input")
      .type_name("FILE")
      .files({"json"})
      .required();
  app.option("--tools", tools, "JSON array of tools").type_name("FILE").files({"json"});
  app.flag("--add-generation-prompt", prompt,
           "Append the header of an assistant message, so that the model answers");
  app.option("--vars", variables, "JSON object of further template variables, such as bos_token")
      .type_name("FILE")
      .files({"json"});
  app.option("--now", now, "Time for strftime_now, such as 2024-05-17T12:34:56 [now]")
      .type_name("TIME");
  model.add_json(app, "Print a JSON object: text");
  app.read(std::move(arguments));
  if (model.path.empty() == (app.count("--template-file") == 0))
    throw Misuse("--template-file",
                 model.path.empty() ? "this flag or MODEL is required" : "excludes MODEL");
  ChatTemplate::Options options;
  if (!now.empty()) options.now = parse_clock(now);

  std::string text;
  if (model.path.empty()) text = read_file(template_file, kTemplateFile);
  const Inputs inputs = read_inputs(messages, tools, variables);
  Json special;
  if (!model.path.empty()) {
    text = source_of(model.path, name, inputs.more);
    special = special_token_variables(*load_tokenizer(model.path));
  }
  const ChatTemplate chat(text,
                          model.path.empty() ? template_file : model.path + ": chat template");
  const std::string rendered =
      chat.render(template_variables(special, inputs.messages, prompt, inputs.more), options);
  if (model.json) {
    standard_output().json({{"text", rendered}});
  } else {
    standard_output().untrusted(rendered);
  }
}

}  // namespace veery::cli
