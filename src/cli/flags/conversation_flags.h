// conversation_flags.h: the flags that say what a chat template gets beside the messages.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat.h"
#include "chat/chat_file.h"
#include "cli/args/arguments.h"

namespace veery::cli {

/// A variable of a chat template, "NAME=VALUE" with a value in JSON. Throws kInput naming what was
/// found and what was expected.
std::pair<std::string, Json> parse_template_arg(const std::string& text);

class ConversationFlags {
 public:
  void add(Arguments& app);
  /// The flag that is given and needs a chat template; empty: none is.
  std::string given() const;

  bool hide_thinking() const { return hide_thinking_; }
  bool has_tools() const { return !tools_file_.empty(); }
  bool loads() const { return !load_file_.empty(); }
  /// The files of --tools and --load, read before a model is. Throws Misuse naming a flag whose
  /// value is wrong, and what read_file(), check_tools() and read_chat() throw.
  void read();
  /// Returns the file of --load, after read().
  const ChatFile& loaded() const { return loaded_; }
  /// Gives `chat` what was read, the messages of --load too; a system message that it has already
  /// replaces theirs. Throws Misuse if the model cannot reason as a flag wants it to, and says on
  /// standard error that a template has no switch.
  void apply(Chat& chat, const Model& model) const;

 private:
  void check_thinking(const Chat& chat, const Model& model) const;

  std::optional<bool> think_;
  std::string level_;  ///< of --think; empty: none
  bool no_think_ = false, hide_thinking_ = false;
  std::vector<std::string> template_args_;
  std::string tools_file_, load_file_;
  Json variables_ = Json::object(), tools_;
  ChatFile loaded_;
};

}  // namespace veery::cli
