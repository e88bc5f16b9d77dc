#include "cli/chat/chat_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/help_text.h"
#include "cli/args/input.h"
#include "cli/args/token_ids.h"
#include "cli/chat/answerer.h"
#include "cli/chat/commands.h"
#include "cli/chat/saved_session.h"
#include "cli/chat/settings.h"
#include "cli/editor/editor.h"
#include "cli/editor/entry.h"
#include "cli/output/output.h"
#include "file/output/pending_file.h"
#include "schedule/generate.h"

namespace veery::cli {
namespace {

/// Opens the history file; without one, warns and keeps entries in memory.
History open_history(bool quiet) {
  std::string why = "neither XDG_STATE_HOME nor HOME is set";
  try {
    if (auto path = History::default_path()) return History(std::move(*path));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    why = error.what();
  }
  if (!quiet) write_error(fmt::format("veery: the history is not saved: {}\n", why));
  return {};
}

class ChatLoop {
 public:
  ChatLoop(Model& model, ChatState state, const ChatOptions& options)
      : model_(model),
        state_(std::move(state)),
        scheduler_(model, options.scheduler),
        session_(scheduler_, options.session),
        history_(open_history(state_.quiet)),
        editor_(make_editor(terminal_, history_, complete_command)),
        answerer_(state_, scheduler_, options.grammar, [this] { return terminal_.interrupted(); }) {
  }

  void run() {
    if (!state_.quiet) write_error("Type a message, or /help.\n");
    go_on();
    converse();
    session_.save(answerer_.prompt(), answerer_.made(), state_.chat.messages());
  }

 private:
  // Continues a loaded conversation.
  void go_on() {
    const Json messages = session_.messages();
    if (!messages.empty()) state_.chat.set_messages(messages, "the saved conversation");
    const bool begun = state_.chat.turns() > 0;
    if (begun && !state_.quiet)
      write_error(fmt::format("Continuing the conversation ({} messages).\n",
                              state_.chat.messages().size()));
  }

  void converse() {
    ask_for_result();
    while (!leave_) {
      // The first Ctrl-C stopped the answer; any further one counts at the prompt.
      const auto entry = editor_->read(terminal_.take_interrupts() > 1);
      if (!entry) return;
      const bool blank = entry->find_first_not_of(" \t\n") == std::string::npos;
      if (blank && !awaits_result()) continue;
      if (blank) {
        results_skipped_ = true;
        write_error("No result: type the next message.\n");
      } else if (is_command(*entry)) {
        command(*entry);
      } else {
        take(message_of(*entry));
      }
      ask_for_result();
    }
  }

  bool awaits_result() const {
    return !results_skipped_ && !open_calls(state_.chat.messages()).empty();
  }

  void ask_for_result() {
    if (!awaits_result() || leave_) return;
    const OpenCall call = open_calls(state_.chat.messages()).front();
    write_error(fmt::format("Paste the result of {} and press Enter (an empty line: no result).\n",
                            printable(call.name, 60)));
  }

  void command(const std::string& line) {
    try {
      const CommandLine parsed = parse_command(line);
      carry_out(parsed.action, parsed.argument);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      write_error(fmt::format("{}\n", error.what()));
    }
  }

  void carry_out(Action action, const std::string& argument) {
    switch (action) {
      case Action::kHelp: write_error(help_for(std::string(command_help()), STDERR_FILENO)); break;
      case Action::kClear: clear(); break;
      case Action::kUndo: undo(); break;
      case Action::kRetry: retry(); break;
      case Action::kSave: save(argument); break;
      case Action::kLoad: load(argument); break;
      case Action::kSet:
        write_error(fmt::format("Now {}.\n", change_setting(state_, argument)));
        break;
      case Action::kShow: show(argument); break;
      case Action::kLeave: leave_ = true; break;
    }
  }

  void clear() {
    const size_t before = state_.chat.messages().size();
    state_.chat.reset();
    const size_t kept = state_.chat.messages().size();
    if (before == kept)
      write_error("There is no conversation to remove.\n");
    else
      write_error(fmt::format("Removed the conversation ({} messages){}.\n", before - kept,
                              kept > 0 ? "; kept the system message" : ""));
  }

  void undo() {
    results_skipped_ = false;
    const size_t before = state_.chat.messages().size();
    if (!state_.chat.drop_last_turn())
      write_error("There is no message to remove.\n");
    else
      write_error(fmt::format("Removed the last turn ({} messages).\n",
                              before - state_.chat.messages().size()));
  }

  void retry() {
    const Json before = state_.chat.messages();
    if (!state_.chat.drop_answer())
      write_error("There is no message to answer again.\n");
    else
      answer_or(before);
  }

  void save(std::string path) {
    constexpr std::string_view kForce = "--force ";
    const bool forced = path.starts_with(kForce);
    if (forced) path = path.substr(path.find_first_not_of(' ', kForce.size()));
    // Replaces without --force only files that this chat has written or read.
    const bool own = std::ranges::find(files_, path) != files_.end();
    PendingFile file(path, {.existing = own || forced ? Existing::kReplace : Existing::kRefuse,
                            .inputs = inputs_of(model_.file())});
    const std::string text = write_chat(chat_file_of(state_));
    file.write(text.data(), text.size());
    file.commit();
    files_.push_back(path);
    write_error(
        fmt::format("Saved {} messages to {}.\n", state_.chat.messages().size(), shown_path(path)));
  }

  void load(const std::string& path) {
    const ChatFile file = read_chat(read_file(path, kMessagesFile), shown_path(path));
    apply_chat_file(state_, file, shown_path(path));
    files_.push_back(path);
    results_skipped_ = false;
    const bool other = !file.model.empty() && file.model != state_.model_name;
    write_error(fmt::format("Loaded {} messages from {}{}.\n", state_.chat.messages().size(),
                            shown_path(path),
                            other ? "; they were generated by " + printable(file.model, 200) : ""));
  }

  void show(const std::string& what) {
    if (!what.empty() && what != "messages")
      throw Error(ErrorKind::kInput, "/show: found '{}', expected messages or nothing",
                  printable(what, 40));
    write_error(what.empty() ? shown_settings(state_, scheduler_.context())
                             : shown_messages(state_));
  }

  // Takes a message of the user, or the result of a tool call.
  void take(const std::string& text) {
    LostBytes lost;
    encode_prompt(model_.tokenizer(), text, &lost);
    warn_lost(lost, "the message");
    const Json before = state_.chat.messages();
    if (!awaits_result()) {
      state_.chat.add_user(text);
      return answer_or(before);
    }
    const OpenCall call = open_calls(before).front();
    state_.chat.add_tool_result(call.name, call.id, text);
    if (!awaits_result()) answer_or(before);
  }

  // Answers the conversation; restores `before` if there is no answer.
  void answer_or(const Json& before) {
    if (answerer_.answer())
      results_skipped_ = false;
    else
      state_.chat.set_messages(before, "the conversation");
  }

  Model& model_;
  ChatState state_;
  Scheduler scheduler_;
  SavedSession session_;
  History history_;
  Terminal terminal_;
  std::unique_ptr<Editor> editor_;
  Answerer answerer_;
  std::vector<std::string> files_;  ///< written or read by this chat
  bool results_skipped_ = false;    ///< the user gives no results for the last calls
  bool leave_ = false;
};

}  // namespace

void chat_loop(Model& model, ChatState state, const ChatOptions& options) {
  ChatLoop(model, std::move(state), options).run();
}

}  // namespace veery::cli
