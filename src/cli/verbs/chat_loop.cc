#include "cli/verbs/chat_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/editor/editor.h"
#include "cli/editor/entry.h"
#include "cli/parts/answer_printer.h"
#include "cli/parts/cli.h"
#include "cli/parts/output.h"
#include "cli/verbs/saved_session.h"
#include "schedule/generate.h"

namespace veery::cli {
namespace {

constexpr const char* kHelp =
    "/help            this list\n"
    "/reset, /clear   forget the conversation\n"
    "/exit, /bye      leave (also /quit, Ctrl-D)\n"
    "//...            a message that begins with /\n"
    "\n"
    "Alt-Enter        a new line (also a backslash before Enter; a paste keeps its lines)\n"
    "\"\"\"              begins, and ends, a message of several lines\n"
    "Ctrl-C           stops an answer; takes back what is typed; pressed twice: leaves\n"
    "Up, Down         what was typed before; Ctrl-R searches it\n"
    "Tab              completes commands\n";

const std::vector<std::string>& commands() {
  static const std::vector<std::string> names = {"/help", "/reset", "/clear",
                                                 "/exit", "/bye",   "/quit"};
  return names;
}

/// Kept in a file where that is possible; where not, that is said.
History open_history(bool quiet) {
  std::string why = "neither XDG_STATE_HOME nor HOME says where";
  try {
    if (auto path = History::default_path()) return History(std::move(*path));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    why = error.what();
  }
  if (!quiet) write_error(fmt::format("veery: what is typed is not kept: {}\n", why));
  return {};
}

class ChatLoop {
 public:
  ChatLoop(Model& model, Chat chat, const ChatOptions& options)
      : model_(model),
        chat_(std::move(chat)),
        options_(options.answers),
        grammar_(options.grammar),
        quiet_(options.quiet),
        scheduler_(model, options.scheduler),
        session_(scheduler_, options.session),
        history_(open_history(quiet_)),
        editor_(make_editor(terminal_, history_, commands())) {
    options_.drop_first_space = !chat_.raw();
    if (!chat_.raw()) options_.marks = model.answer_format();
  }

  void run() {
    if (!quiet_) write_error("Type a message, or /help.\n");
    go_on();
    converse();
    session_.save(prompt_, made_, chat_.messages());
  }

 private:
  // Where a file holds a conversation.
  void go_on() {
    const Json messages = session_.messages();
    if (messages.empty()) return;
    chat_.set_messages(messages, "the saved conversation");
    if (!quiet_)
      write_error(fmt::format("The conversation goes on ({} messages).\n", messages.size()));
  }

  void converse() {
    while (!leave_) {
      // The first Ctrl-C stopped an answer.
      const auto entry = editor_->read(terminal_.take_interrupts() > 1);
      if (!entry) return;
      if (entry->find_first_not_of(" \t\n") == std::string::npos) continue;
      if (is_command(*entry))
        command(*entry);
      else
        answer(message_of(*entry));
    }
  }

  void command(const std::string& line) {
    const std::string name = line.substr(0, line.find_first_of(" \t"));
    const bool known = std::find(commands().begin(), commands().end(), name) != commands().end();
    const bool alone = line.find_first_not_of(" \t", name.size()) == std::string::npos;
    if (!known || !alone)
      write_error(fmt::format("{} '{}'; there are {} (a message: /{})\n",
                              known ? "nothing may follow" : "unknown command", escaped(name),
                              fmt::join(commands(), ", "), escaped(name)));
    else if (name == "/help")
      write_error(kHelp);
    else if (name == "/reset" || name == "/clear")
      reset();
    else
      leave_ = true;
  }

  void reset() {
    const size_t before = chat_.messages().size();
    chat_.reset();
    const size_t kept = chat_.messages().size();
    if (before == kept)
      write_error("There is no conversation to forget.\n");
    else
      write_error(fmt::format("The conversation is forgotten ({} messages){}.\n", before - kept,
                              kept > 0 ? "; the system message stays" : ""));
  }

  void answer(const std::string& message) {
    LostBytes lost;
    encode_prompt(model_.tokenizer(), message, &lost);
    tell_lost(lost, "the message");
    chat_.add_user(message);
    Generation result;
    ParsedAnswer parsed;
    try {
      RenderedConversation rendered = chat_.render();
      AnswerParser& parser = rendered.parser;
      AnswerPrinter printer(out_, shows_styles(STDOUT_FILENO));
      const GenerateRequest request{.prompt = std::move(rendered.ids),
                                    .options = options_,
                                    .grammar = grammar_,
                                    .grammar_after = std::string(parser.reasoning_end())};
      prompt_ = request.prompt;
      made_.clear();
      result = generate(scheduler_, request, [&](std::string_view text) {
        printer.print(parser.push(text));
        return !terminal_.interrupted();
      });
      printer.print(parser.finish());
      printer.end();
      parsed = parser.answer();
      made_ = result.ids;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit && error.kind() != ErrorKind::kInput) throw;
      chat_.drop_last();
      write_error(fmt::format("veery: {}; /reset forgets the conversation\n", error.what()));
      return;
    }
    if (result.ids.empty() && result.finish == FinishReason::kCancelled) {
      chat_.drop_last();
      write_error("Stopped before the answer began: the message is taken back.\n");
      return;
    }
    if (chat_.raw())
      chat_.add_assistant(result.text);
    else
      chat_.add_assistant(parsed);
    ++options_.sampling.seed;
    out_.write("\n");
    out_.flush();
    if (!quiet_) write_error(summary_line(result, model_));
  }

  Model& model_;
  Chat chat_;
  GenerateOptions options_;
  std::shared_ptr<const Grammar> grammar_;
  bool quiet_;
  Scheduler scheduler_;
  SavedSession session_;
  std::vector<int32_t> prompt_, made_;  ///< of the last answer
  History history_;
  Terminal terminal_;
  std::unique_ptr<Editor> editor_;
  Output& out_ = standard_output();
  bool leave_ = false;
};

}  // namespace

void chat_loop(Model& model, Chat chat, const ChatOptions& options) {
  ChatLoop(model, std::move(chat), options).run();
}

std::string summary_line(const Generation& result, const Model& model) {
  const std::string reused =
      result.reused_tokens > 0 ? fmt::format(" (+{} cached)", result.reused_tokens) : "";
  const std::string accepted =
      result.accepted_tokens > 0 ? fmt::format(" ({} drafted)", result.accepted_tokens) : "";
  const char* note = result.finish == FinishReason::kLength      ? ", length reached"
                     : result.finish == FinishReason::kCancelled ? ", stopped"
                                                                 : "";
  return fmt::format(
      "[prompt {} tokens{}, {:.1f} tok/s | answer {} tokens{}, {:.1f} tok/s{} | load {:.2f} s | "
      "peak "
      "memory {}]\n",
      result.prompt_tokens, reused, result.prompt_rate(), result.ids.size(), accepted,
      result.decode_rate(), note, model.load_seconds(),
      human_bytes(static_cast<double>(peak_memory())));
}

}  // namespace veery::cli
