// chat.h: a conversation with a model: its messages, tools, variables and prompts.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/conversation.h"
#include "chat/messages.h"
#include "engine/model.h"
#include "text/answer/answer_parser.h"
#include "text/chat/chat_text.h"
#include "text/tokenizer.h"

namespace veery {

/// A conversation with one model. Without a chat template it is a text that both sides append to.
class Chat {
 public:
  /// `raw`: use no template, even if the model has one. The model must outlive the chat.
  Chat(const Model& model, std::string system, bool raw);

  bool raw() const { return raw_; }
  const Json& messages() const { return messages_; }
  void add_user(std::string_view text) { add("user", text); }
  void add_assistant(std::string_view text) { add("assistant", text); }
  /// Adds a parsed answer with its reasoning and tool calls.
  void add_assistant(const ParsedAnswer& answer) { messages_.push_back(to_message(answer)); }
  /// Adds the result of a tool call. `id`: of the call, or empty.
  void add_tool_result(std::string_view name, std::string_view id, std::string_view text);
  /// Sets the functions that the model may call, in OpenAI's form: [{"type": "function",
  /// "function": {...}}]; null: none.
  void set_tools(Json tools) { tools_ = std::move(tools); }
  const Json& tools() const { return tools_; }
  /// Sets variables of the template, an object.
  void set_variables(Json variables) { variables_ = std::move(variables); }
  const Json& variables() const { return variables_; }
  /// Replaces the system message; empty: removes it.
  void set_system(std::string text);
  const std::string& system() const { return system_; }
  /// Replaces all messages. A system message at the front becomes that of system() and reset().
  /// Throws as check_messages() does.
  void set_messages(const Json& messages, std::string_view where);
  /// Removes the last message.
  void drop_last();
  /// Removes all messages except the system message.
  void reset();

  /// Returns the number of turns: a message of the user with all that follows up to the next one.
  size_t turns() const;
  /// Removes the last turn. Returns false if there is none.
  bool drop_last_turn();
  /// Removes all messages after the last one of the user or a tool, so that it can be answered
  /// again. Returns false if there is no such message.
  bool drop_answer();
  /// Removes the first `count` turns. Keeps system messages before them.
  void drop_first_turns(size_t count);
  /// Removes the fewest first turns such that the prompt has at most `most` tokens, but never the
  /// last turn. Returns the number of removed turns. Throws as render() does.
  size_t drop_turns_beyond(size_t most);

  /// Renders the prompt of the next answer and the parser for that answer; without a template all
  /// of the answer is content. `lost`: counts bytes without a token. `continues`: the answer
  /// continues the last message. Throws kInput if the template refuses the conversation.
  RenderedConversation render(LostBytes* lost = nullptr, bool continues = false) const;
  /// Return parts of render().
  std::string text() const { return render().text; }
  std::vector<int32_t> prompt(LostBytes* lost = nullptr) const { return render(lost).ids; }
  AnswerParser parser() const { return render().parser; }

 private:
  void add(std::string_view role, std::string_view text);
  size_t turn_begin(size_t turn) const;

  const Model& model_;
  std::string system_;
  bool raw_;
  Json messages_ = Json::array();
  Json tools_;
  Json variables_ = Json::object();
};

/// A tool call whose result is not in the messages yet.
struct OpenCall {
  std::string id, name;
};
/// Returns the calls of the last assistant message that no tool message follows yet.
std::vector<OpenCall> open_calls(const Json& messages);

/// Gives each call without an id the id "call_N", where N counts all calls from `messages` on.
void give_call_ids(ParsedAnswer& answer, const Json& messages);

}  // namespace veery
