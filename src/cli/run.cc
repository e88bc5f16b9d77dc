// run.cc: `veery run`: answers a prompt, or chats.
#include <unistd.h>

#include <random>

#include "cli/answer_printer.h"
#include "cli/chat_loop.h"
#include "cli/cli.h"
#include "cli/editor/terminal.h"
#include "cli/output.h"
#include "engine/chat.h"
#include "engine/generate.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments model;
  std::optional<std::string> prompt, file, ids;
  std::string system;
  int64_t tokens = -1, seed = -1;
  std::optional<float> temperature, top_p, min_p, repeat_penalty;
  std::optional<int32_t> top_k, repeat_last_n;
  std::vector<std::string> stops;
  bool ignore_eos = false, raw = false, quiet = false;
};

void add_input(Arguments& app, Flags& flags) {
  flags.model.add_path(app);
  auto* text = app.add_option("-p,--prompt", flags.prompt,
                              "What to answer; without -p, -f and --ids: a chat on a terminal,\n"
                              "else standard input")
                   ->type_name("TEXT")
                   ->group("Prompt");
  auto* file = app.add_option("-f,--file", flags.file, "Read the prompt from a file")
                   ->type_name("FILE")
                   ->group("Prompt");
  auto* ids = app.add_option("--ids", flags.ids, "Token ids as the prompt, as they are: 1,2,3")
                  ->type_name("IDS")
                  ->group("Prompt");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  app.add_option("--system", flags.system, "System message (also written -sys)")
      ->type_name("TEXT")
      ->group("Prompt");
  app.add_spelling("-sys", "--system");
  app.add_flag("--raw", flags.raw, "Continue the text as it is, without the chat template")
      ->group("Prompt");
}

void add_sampling(Arguments& app, Flags& flags) {
  const auto add = [&](const std::string& name, auto& value, const std::string& what,
                       const char* type) {
    return app.add_option(name, value, what)->type_name(type)->group("Choice of tokens");
  };
  const CLI::Validator positive = in_range(0, 1e9);
  add("--temp", flags.temperature, "Temperature; 0: always the most probable token [0.8]", "T")
      ->check(positive);
  add("--top-p", flags.top_p, "Keep the most probable tokens up to this mass; 1: off [0.95]", "P")
      ->check(in_range(0.0, 1.0));
  add("--min-p", flags.min_p, "Keep tokens this probable relative to the best; 0: off [0.05]", "P")
      ->check(in_range(0.0, 1.0));
  add("--top-k", flags.top_k, "Keep the K most probable tokens; 0: off [40]", "K");
  add("--repeat-penalty", flags.repeat_penalty, "Make recent tokens less likely; 1: off [1]", "R")
      ->check(positive);
  add("--repeat-last-n", flags.repeat_last_n, "Tokens that count as recent; -1: all [64]", "N");
  add("-s,--seed", flags.seed, "Same seed, same text; -1: another one each time", "N")
      ->capture_default_str();
}

void add_rest(Arguments& app, Flags& flags) {
  app.add_option("-n,--predict,--max-tokens", flags.tokens,
                 "Most tokens of an answer; -1: until it ends or the context is full")
      ->type_name("N")
      ->group("Length")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--stop", [&flags](const std::string& stop) { flags.stops.push_back(stop); },
         "End before this text; may be given several times")
      ->type_name("TEXT")
      ->group("Length")
      ->trigger_on_parse();
  app.add_flag("--ignore-eos", flags.ignore_eos, "Go on after tokens that end an answer")
      ->group("Length");
  flags.model.add_context(app);
  flags.model.add_threads(app);
  flags.model.add_exact(app);
  flags.model.add_cache_types(app);
  flags.model.add_json(app,
                       "Print one JSON object: text, ids, prompt_ids, finish_reason,\n"
                       "timings, message (the answer taken apart: content,\n"
                       "reasoning_content, tool_calls)");
  app.add_flag("-q,--quiet", flags.quiet, "No summary on standard error");
}

GenerateOptions generate_options(const Flags& flags, const Model& model) {
  GenerateOptions options;
  SamplerOptions& sampling = options.sampling;
  sampling = recommended_sampling(model.file().metadata);
  sampling.temperature = flags.temperature.value_or(sampling.temperature);
  sampling.top_p = flags.top_p.value_or(sampling.top_p);
  sampling.min_p = flags.min_p.value_or(sampling.min_p);
  sampling.top_k = flags.top_k.value_or(sampling.top_k);
  sampling.repeat_penalty = flags.repeat_penalty.value_or(sampling.repeat_penalty);
  sampling.repeat_last_n = flags.repeat_last_n.value_or(sampling.repeat_last_n);
  sampling.seed = flags.seed >= 0 ? static_cast<uint64_t>(flags.seed) : std::random_device{}();
  if (flags.tokens >= 0) options.max_tokens = flags.tokens;
  options.stops = flags.stops;
  options.ignore_eos = flags.ignore_eos;
  return options;
}

std::optional<std::string> prompt_text(const Flags& flags) {
  if (flags.prompt) return flags.prompt;
  if (flags.ids) return std::nullopt;
  std::string text = flags.file ? read_file(*flags.file) : read_standard_input();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Json to_json(const Generation& result, const std::vector<int32_t>& prompt, const Model& model) {
  return {{"text", result.text},
          {"ids", result.ids},
          {"prompt_ids", prompt},
          {"finish_reason", name(result.finish)},
          {"timings",
           {{"load_s", model.load_seconds()},
            {"prompt_tokens", result.prompt_tokens},
            {"prompt_s", result.prompt_seconds},
            {"prompt_tokens_per_second", result.prompt_rate()},
            {"decode_tokens", result.ids.size()},
            {"decode_s", result.decode_seconds},
            {"decode_tokens_per_second", result.decode_rate()},
            {"peak_memory_bytes", peak_memory()}}}};
}

void answer_once(const Flags& flags, Model& model) {
  GenerateOptions options = generate_options(flags, model);
  std::vector<int32_t> prompt;
  // Other programs get the text as it is written.
  const bool styled = !flags.model.json && shows_styles(STDOUT_FILENO);
  AnswerParser parser{AnswerFormat()};
  if (const auto text = prompt_text(flags)) {
    Chat chat(model, flags.system, flags.raw);
    chat.add_user(*text);
    prompt = chat.prompt();
    options.drop_first_space = !chat.raw();
    if (!chat.raw() && (styled || flags.model.json)) {
      options.marks = model.answer_format();
      parser = chat.parser();
    }
  } else {
    prompt = parse_ids(*flags.ids, "--ids");
  }
  const int64_t positions = flags.tokens < 0 ? 0 : std::ssize(prompt) + flags.tokens;
  Generator generator(model, positions);
  Output& out = standard_output();
  AnswerPrinter printer(out, styled);
  const auto print = [&](const std::vector<AnswerDelta>& deltas) {
    if (!flags.model.json) printer.print(deltas);
  };
  const Generation result = generator.generate(prompt, options, [&](std::string_view text) {
    print(parser.push(text));
    return true;
  });
  print(parser.finish());
  if (flags.model.json) {
    Json json = to_json(result, prompt, model);
    json["message"] = to_message(parser.answer());
    out.json(json);
  } else {
    printer.end();
    if (!result.text.ends_with('\n')) out.write("\n");
    out.flush();
    if (!flags.quiet) write_error(summary_line(result, model));
  }
}

}  // namespace

void run_verb(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app("run",
                "Answers a prompt with a model, streaming the text, or chats.\n\nThe values in "
                "brackets hold where neither a flag nor the file (general.sampling.*) says more.",
                "  veery run model.gguf -p \"Why is the sky blue?\" -n 200 --temp 0");
  add_input(app, flags);
  add_sampling(app, flags);
  add_rest(app, flags);
  app.read(std::move(arguments));

  if (flags.ids) parse_ids(*flags.ids, "--ids");  // misuse is told before a model is loaded
  for (const std::string& stop : flags.stops)
    if (stop.empty()) throw CLI::ValidationError("--stop", "the text is empty");
  const bool prompted = flags.prompt || flags.file || flags.ids;
  const bool chatting = !prompted && isatty(STDIN_FILENO) != 0;
  if (chatting && flags.model.json)
    throw CLI::ValidationError("--json", "needs -p, -f or --ids: a chat has no JSON form");

  Model model = flags.model.load();
  const bool no_template = !flags.raw && !flags.ids && !model.chat_template();
  if (no_template && !flags.quiet)
    write_error("veery: the model has no chat template: the text is continued as it is\n");
  if (chatting) {
    chat_loop(model, Chat(model, flags.system, flags.raw), generate_options(flags, model),
              flags.quiet);
  } else {
    answer_once(flags, model);
  }
}

}  // namespace veery::cli
