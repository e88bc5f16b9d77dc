// chat.h: conversations: from messages to the variables of a template to the ids of a prompt.
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

/// A conversation with one model. Without a template it is one text to which both sides append.
class Chat {
 public:
  /// `raw`: no template, even if the model has one. The model must outlive it.
  Chat(const Model& model, std::string system, bool raw);

  bool raw() const { return raw_; }
  const Json& messages() const { return messages_; }
  void add_user(std::string_view text) { add("user", text); }
  void add_assistant(std::string_view text) { add("assistant", text); }
  /// An answer taken apart: with its reasoning and its tool calls.
  void add_assistant(const ParsedAnswer& answer) { messages_.push_back(to_message(answer)); }
  /// What a tool gave; `id` of the call, or empty.
  void add_tool_result(std::string_view name, std::string_view id, std::string_view text);
  /// Functions that the model may call, as templates take them: [{"type": "function", "function":
  /// {...}}]; null: none.
  void set_tools(Json tools) { tools_ = std::move(tools); }
  const Json& tools() const { return tools_; }
  /// Variables of the template, an object.
  void set_variables(Json variables) { variables_ = std::move(variables); }
  const Json& variables() const { return variables_; }
  /// Replaces the system message; empty: there is none.
  void set_system(std::string text);
  const std::string& system() const { return system_; }
  /// In place of all that was said. A system message at their front is that of reset() too. Throws
  /// as check_messages() does.
  void set_messages(const Json& messages, std::string_view where);
  /// Takes the last message back.
  void drop_last();
  /// Forgets all but the system message.
  void reset();

  /// A turn begins with a message of the user and has what follows it up to the next one.
  size_t turns() const;
  /// Removes the last turn. Returns false if there is none.
  bool drop_last_turn();
  /// Removes what follows the last message of the user or of a tool, so that it can be answered
  /// again. Returns false if there is no such message.
  bool drop_answer();
  /// Removes the first `count` turns; system messages before them stay.
  void drop_first_turns(size_t count);
  /// Removes as few of the first turns as leave a prompt of `most` tokens, all but the last turn if
  /// that is not enough. Returns how many turns it removed. Throws as render() does.
  size_t drop_turns_beyond(size_t most);

  /// The prompt of the next answer, and how that is read: without a template all of it is content.
  /// `continues`: the answer continues the last message. Throws kInput if the template refuses the
  /// conversation.
  RenderedConversation render(LostBytes* lost = nullptr, bool continues = false) const;
  /// Parts of render().
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

/// A call of a tool whose result is not in the messages yet.
struct OpenCall {
  std::string id, name;
};
/// The calls of the last message of the assistant for which no message of a tool follows it.
std::vector<OpenCall> open_calls(const Json& messages);

/// Gives calls without an id one, counted on from the calls that are in `messages`.
void give_call_ids(ParsedAnswer& answer, const Json& messages);

}  // namespace veery
