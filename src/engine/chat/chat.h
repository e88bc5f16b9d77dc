// chat.h: conversations: from messages to the variables of a template to the ids of a prompt.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/chat/conversation.h"
#include "engine/model.h"
#include "text/answer/answer_parser.h"
#include "text/chat/chat_text.h"
#include "text/tokenizer.h"

namespace veery {

/// Throws kInput, naming `where` and the place, unless `messages` is an array of objects with a
/// role, a text that is not empty.
void check_messages(const Json& messages, std::string_view where);

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
  /// In place of all that was said, the system message too. Throws as check_messages() does.
  void set_messages(const Json& messages, std::string_view where);
  /// Takes the last message back.
  void drop_last();
  /// Forgets all but the system message.
  void reset();
  /// The prompt of the next answer, and how that is read: without a template all of it is content.
  /// Throws kInput if the template refuses the conversation.
  RenderedConversation render(LostBytes* lost = nullptr) const;
  /// Parts of render().
  std::string text() const { return render().text; }
  std::vector<int32_t> prompt(LostBytes* lost = nullptr) const { return render(lost).ids; }
  AnswerParser parser() const { return render().parser; }

 private:
  void add(std::string_view role, std::string_view text);

  const Model& model_;
  std::string system_;
  bool raw_;
  Json messages_ = Json::array();
  Json tools_;
};

}  // namespace veery
