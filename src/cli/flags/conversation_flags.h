// conversation_flags.h: flags for the inputs of a chat template: reasoning, variables, tools,
// --load.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat.h"
#include "chat/chat_file.h"
#include "cli/args/arguments.h"

namespace veery::cli {

/// Parses "NAME=VALUE" with a value in JSON. Throws kInput naming what was found and expected.
std::pair<std::string, Json> parse_template_arg(const std::string& text);

class ConversationFlags {
 public:
  void add(Arguments& app);
  /// Returns the first given flag that needs a chat template; empty: none.
  std::string given() const;

  bool hide_thinking() const { return hide_thinking_; }
  bool has_tools() const { return !tools_file_.empty(); }
  bool loads() const { return !load_file_.empty(); }
  /// Parses the flags and reads the files of --tools and --load; needs no model. Throws Misuse
  /// naming the flag, and as read_file(), check_tools() and read_chat() do.
  void read();
  /// Returns the content of --load, after read().
  const ChatFile& loaded() const { return loaded_; }
  /// Sets template variables, tools and the messages of --load. Flags take precedence over the
  /// file, and the present system message of `chat` over that of the file. Throws Misuse if --think
  /// is given and the model does not reason; warns if its template has no switch for reasoning.
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
