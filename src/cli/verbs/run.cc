// run.cc: `veery run`: answers a prompt, or chats.
#include <unistd.h>

#include <limits>

#include "base/json.h"
#include "base/printable.h"
#include "chat/chat.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/chat/chat_loop.h"
#include "cli/chat/saved_session.h"
#include "cli/editor/terminal.h"
#include "cli/flags/conversation_flags.h"
#include "cli/flags/draft_flags.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/grammar_flags.h"
#include "cli/flags/sampling_flags.h"
#include "cli/hub/fetch.h"
#include "cli/output/answer_printer.h"
#include "cli/output/answer_summary.h"
#include "cli/output/memory.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "schedule/generate.h"

namespace veery::cli {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr int32_t kMaxTokensOfOthers = 1 << 20;  // tokens, for a backend without a limit of its own

struct Flags {
  ModelArguments model;
  TextArguments text;
  std::optional<std::string> ids;
  std::string system;
  int64_t tokens = -1;
  SamplingFlags sampling;
  GrammarFlags grammar;
  DraftFlags draft;
  EngineFlags backend;
  ConversationFlags conversation;
  std::vector<std::string> stops;
  std::optional<std::string> session;
  bool ignore_eos = false, raw = false, quiet = false, context_shift = false;
  FetchFlags fetch;
};

void add_input(Arguments& app, Flags& flags) {
  flags.model.add_path(app);
  flags.fetch.add(app);
  flags.text.combined = true;
  const auto text = flags.text.add(app, "PROMPT",
                                   "Prompt; piped standard input and the text of -f come before "
                                   "it.\nWithout any prompt, a chat starts on a terminal.");
  text.prompt.group("Prompt");
  text.file.group("Prompt");
  app.option("--ids", flags.ids, "Prompt as token ids, used unchanged: 1,2,3")
      .type_name("IDS")
      .group("Prompt")
      .excludes(text.prompt)
      .excludes(text.file);
  app.option("--system", flags.system, "System message (also -sys); needs a chat template")
      .type_name("TEXT")
      .allow_empty()
      .group("Prompt");
  app.flag("--raw", flags.raw, "Continue the prompt as it is, without the chat template")
      .group("Prompt");
}

void add_rest(Arguments& app, Flags& flags) {
  app.option("-n,--predict,--max-tokens", flags.tokens,
             "Maximum tokens of an answer; -1: until it ends or the context is full")
      .type_name("N")
      .group("Length")
      .whole_number(-1, kMost)
      .show_default();
  app.option_function(
         "--stop", [&flags](const std::string& stop) { flags.stops.push_back(stop); },
         "End the answer before this text; repeatable")
      .type_name("TEXT")
      .group("Length")
      .trigger_on_parse();
  app.flag("--ignore-eos", flags.ignore_eos, "Continue after tokens that end an answer")
      .group("Length");
  app.flag("--context-shift", flags.context_shift,
           "In a chat, drop the oldest turns when the context is full")
      .group("Length");
  flags.conversation.add(app);
  flags.model.add_chat_template(app);
  flags.grammar.add(app);
  flags.draft.add(app);
  app.option("--session", flags.session,
             "Save the KV cache to FILE and resume from it; only new tokens are evaluated")
      .type_name("FILE");
  flags.backend.add(app);
  flags.model.add_context(app);
  flags.model.add_threads(app);
  flags.model.add_exact(app);
  flags.model.add_cache_types(app);
  flags.model.add_device(app);
  flags.model.add_gpu_layers(app);
  flags.model.add_json(app,
                       "Print a JSON object: text, ids, prompt_ids, finish_reason, timings, "
                       "message\nand, if some bytes have no token, lost");
  app.flag("-q,--quiet", flags.quiet, "Print no summary on standard error");
}

GenerateOptions generate_options(const Flags& flags, const Model& model) {
  GenerateOptions options;
  options.sampling = recommended_sampling(model.file().metadata);
  apply_parameters(options, flags.conversation.loaded().parameters, "--load");
  options.sampling = flags.sampling.options(model, options.sampling);
  if (flags.tokens >= 0) options.max_tokens = flags.tokens;
  options.stops = flags.stops;
  options.ignore_eos = flags.ignore_eos;
  return options;
}

/// The prompt, a text or ids. Read before the model is loaded, so that a missing file fails early.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

Prompt read_prompt(const Flags& flags) {
  if (flags.ids) return {"", parse_ids(*flags.ids, "--ids")};
  return {flags.text.read(), {}};
}

Json to_json(const Generation& result, const std::vector<int32_t>& prompt, const Model& model) {
  Json json = {{"text", result.text},
               {"ids", result.ids},
               {"prompt_ids", prompt},
               {"finish_reason", name(result.finish)},
               {"timings",
                {{"load_s", model.load_seconds()},
                 {"prompt_tokens", result.prompt_tokens},
                 {"prompt_s", result.prompt_seconds},
                 {"prompt_tokens_per_second", result.prompt_rate()},
                 {"reused_tokens", result.reused_tokens},
                 {"decode_tokens", result.ids.size()},
                 {"drafted_tokens", result.drafted_tokens},
                 {"accepted_tokens", result.accepted_tokens},
                 {"decode_s", result.decode_seconds},
                 {"decode_tokens_per_second", result.decode_rate()},
                 {"peak_memory_bytes", peak_memory()}}}};
  if (Json memory = device_memory(model); !memory.is_null())
    json["timings"]["device_memory"] = std::move(memory);
  if (!model.backend().runs_on_host()) json["relaxed"] = model.backend().relaxed();
  return json;
}

/// Replaces the offset in the rendered prompt by that in the text of the user, if the first lost
/// byte is there.
void place_in_text(LostBytes& lost, const Model& model, const std::string& text) {
  LostBytes own;
  encode_prompt(model.tokenizer(), text, &own);
  if (own.count > 0) lost.first = own.first;
}

SchedulerOptions scheduler_options(const Flags& flags) {
  SchedulerOptions options = single_user();
  flags.draft.set(options, flags.model);
  return options;
}

/// A rendered prompt and the parser of its answer.
struct Asked {
  std::vector<int32_t> ids;
  AnswerParser parser{AnswerFormat()};
  Json messages = Json::array();  ///< the conversation of the prompt; empty with --ids
  LostBytes lost;
};

/// Returns the conversation that the flags describe.
Chat make_chat(const Flags& flags, const Model& model) {
  Chat chat(model, flags.system, flags.raw);
  flags.conversation.apply(chat, model);
  return chat;
}

/// Whether the conversation can be answered without another message.
bool awaits_answer(const Json& messages) {
  if (messages.empty()) return false;
  const std::string role = messages.back().value("role", "");
  return role == "user" || role == "tool";
}

/// `taken_apart`: the marks of reasoning and calls are parsed, not printed.
Asked ask(const Flags& flags, const Prompt& given, const Model& model, bool taken_apart,
          GenerateOptions& options) {
  Asked asked;
  if (flags.ids) {
    check_ids(given.ids, model, "--ids");
    asked.ids = given.ids;
    return asked;
  }
  Chat chat = make_chat(flags, model);
  if (!given.text.empty() || !awaits_answer(chat.messages())) chat.add_user(given.text);
  RenderedConversation rendered = chat.render(&asked.lost);
  asked.ids = std::move(rendered.ids);
  asked.messages = chat.messages();
  if (asked.lost.count > 0 && !chat.raw()) place_in_text(asked.lost, model, given.text);
  warn_lost(asked.lost, "the prompt");
  options.drop_first_space = !chat.raw();
  if (!chat.raw() && taken_apart) {
    options.marks = rendered.format;
    asked.parser = std::move(rendered.parser);
  }
  return asked;
}

/// Returns the answer as a message, without the reasoning if --hide-thinking is given.
Json message_json(ParsedAnswer answer, const Flags& flags) {
  if (flags.conversation.hide_thinking()) answer.reasoning.clear();
  return to_message(answer);
}

void answer_once(const Flags& flags, const Prompt& given, Model& model) {
  GenerateOptions options = generate_options(flags, model);
  // Styles are for terminals only: pipes and files get the text unchanged.
  const AnswerLook look{
      .styled = !flags.model.json && shows_styles(STDOUT_FILENO),
      .hide_reasoning = flags.conversation.hide_thinking(),
      .json_calls = flags.conversation.has_tools() || !flags.conversation.loaded().tools.is_null()};
  const std::shared_ptr<const Grammar> grammar = flags.grammar.grammar(model);
  // The parser finds the mark that ends the reasoning, after which a grammar applies.
  const bool taken_apart =
      look.styled || look.hide_reasoning || look.json_calls || flags.model.json || grammar;
  Asked asked = ask(flags, given, model, taken_apart, options);
  AnswerParser& parser = asked.parser;
  Scheduler scheduler(model, scheduler_options(flags));
  SavedSession session(scheduler, flags.session);
  Output& out = standard_output();
  AnswerPrinter printer(out, look);
  const auto print = [&](const std::vector<AnswerDelta>& deltas) {
    if (!flags.model.json) printer.print(deltas);
  };
  const GenerateRequest request{.prompt = asked.ids,
                                .options = options,
                                .grammar = grammar,
                                .grammar_after = std::string(parser.reasoning_end())};
  const Generation result = generate(scheduler, request, [&](std::string_view text) {
    print(parser.push(text));
    return true;
  });
  print(parser.finish());
  ParsedAnswer answer = parser.answer();
  give_call_ids(answer, asked.messages);
  if (flags.model.json) {
    Json json = to_json(result, asked.ids, model);
    if (asked.lost.count > 0) json["lost"] = lost_json(asked.lost);
    json["message"] = message_json(answer, flags);
    out.json(json);
  } else {
    printer.end(answer);
    if (!printer.wrote()) out.write("\n");
    printer.end_line();
    AnswerSummary summary;
    summary.add(result);
    if (!flags.quiet) write_error(summary_line(summary, model.load_seconds(), peak_memory()));
  }
  session.save(asked.ids, result.ids);
}

void answer_by_another(const Arguments& app, const Flags& flags, bool chatting) {
  if (chatting)
    throw Misuse("--backend", "needs a prompt (-p or -f): only veery's own backend has a chat");
  EngineOptions options = flags.sampling.engine_options();
  options.max_tokens = flags.tokens < 0 ? kMaxTokensOfOthers : static_cast<int32_t>(flags.tokens);
  flags.backend.answer(app, flags.model.path,
                       {.prompt = flags.ids ? "" : read_prompt(flags).text,
                        .system = flags.system,
                        .raw = flags.raw,
                        .json = flags.model.json,
                        .quiet = flags.quiet},
                       options);
}

/// Refuses flags that need a chat template if none is used.
void check_template(const Flags& flags) {
  const std::string flag = !flags.system.empty() ? "--system" : flags.conversation.given();
  if (flag.empty()) return;
  const auto refuse = [&](const std::string& reason) {
    throw Misuse(flag, reason + (flag == "--system" ? ": a system message needs a chat template"
                                                    : ": the flag needs a chat template"));
  };
  if (flags.raw) refuse("--raw leaves the chat template out");
  if (flags.ids) refuse("--ids are used unchanged");
  if (!flags.model.chosen_template() && chat_template_source(flags.model.path).empty())
    refuse(fmt::format("{} has no chat template", escaped(flags.model.path)));
}

/// Warns if the chat template leaves the system message out.
void warn_dropped_system(const Flags& flags, const Model& model) {
  constexpr const char* kBlank = " \t\r\n";
  const size_t begin = flags.system.find_first_not_of(kBlank);
  if (begin == std::string::npos) return;
  const size_t end = flags.system.find_last_not_of(kBlank) + 1;  // templates may trim blanks
  Chat chat(model, flags.system, flags.raw);
  chat.add_user("hello");
  if (chat.text().find(flags.system.substr(begin, end - begin)) == std::string::npos)
    write_error("veery: the model's chat template leaves the system message out\n");
}

}  // namespace

void run_verb(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app(
      "run",
      "Answers a prompt with a model, streaming the text, or chats.\n\nDefaults in brackets apply "
      "unless a flag or the model file (general.sampling.*) sets another value.",
      "  veery run model.gguf -p \"Why is the sky blue?\" -n 200 --temp 0");
  add_input(app, flags);
  flags.sampling.add(app);
  add_rest(app, flags);
  app.read(std::move(arguments));

  for (const std::string& stop : flags.stops)
    if (stop.empty()) throw Misuse("--stop", "empty value, expected TEXT");
  flags.text.join_words(app, {"--ids"});
  const bool prompted = flags.text.given() || flags.ids;
  const bool chatting = !prompted && isatty(STDIN_FILENO) != 0;
  if (flags.session && flags.conversation.loads())
    throw Misuse("--load", "excludes --session: each of them is a conversation");
  if (flags.context_shift && !chatting)
    throw Misuse("--context-shift", "needs a chat: a single answer ends when the context is full");
  if (chatting && flags.model.json)
    throw Misuse("--json", "needs -p, -f or --ids: a chat has no JSON form");
  if (flags.backend.other()) return answer_by_another(app, flags, chatting);
  check_template(flags);

  flags.conversation.read();
  const Prompt prompt = chatting ? Prompt() : read_prompt(flags);
  fetch_if_missing(flags.model.path, flags.fetch);
  Model model = flags.model.load();
  const bool no_template = !flags.raw && !flags.ids && !model.chat_template();
  if (no_template && !flags.quiet)
    write_error("veery: the model has no chat template: the text is continued as it is\n");
  warn_dropped_system(flags, model);
  if (!chatting) return answer_once(flags, prompt, model);
  chat_loop(model,
            {.model = model,
             .model_name = flags.model.path,
             .chat = make_chat(flags, model),
             .options = generate_options(flags, model),
             .quiet = flags.quiet,
             .hide_thinking = flags.conversation.hide_thinking(),
             .context_shift = flags.context_shift},
            {flags.grammar.grammar(model), scheduler_options(flags), flags.session});
}

}  // namespace veery::cli
