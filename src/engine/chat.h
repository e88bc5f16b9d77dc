// chat.h: conversations: from messages to the variables of a template to the ids of a prompt.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model.h"
#include "text/answer/answer_parser.h"
#include "text/tokenizer.h"

namespace veery {

/// {"bos_token": "<s>", ...}: those of bos, eos, unk and pad that the tokenizer has, as
/// transformers passes them.
Json special_token_variables(const Tokenizer& tokenizer);

/// All that transformers passes to a template: `messages` (by template_messages()), tools and
/// documents (null), add_generation_prompt and the special tokens. A member of `more` (an object,
/// or null) replaces or adds a variable.
Json template_variables(const Json& special_tokens, const Json& messages,
                        bool add_generation_prompt, const Json& more = nullptr);

/// Ids of a text that is to be continued: one BOS if the model wants it, also where the text has
/// one written at its front, and no EOS. What becomes no token is counted in `lost`, if there is
/// one.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   LostBytes* lost = nullptr);

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
  /// For the answer to text(). Without a template all of it is content.
  AnswerParser parser() const;
  /// In place of all that was said, the system message too. Throws as check_messages() does.
  void set_messages(const Json& messages, std::string_view where);
  /// Takes the last message back.
  void drop_last();
  /// Forgets all but the system message.
  void reset();
  /// The text that asks for the next answer. Throws kInput if the template refuses the
  /// conversation.
  std::string text() const;
  std::vector<int32_t> prompt(LostBytes* lost = nullptr) const {
    return encode_prompt(model_.tokenizer(), text(), lost);
  }

 private:
  void add(std::string_view role, std::string_view text);

  const Model& model_;
  std::string system_;
  bool raw_;
  Json messages_ = Json::array();
  Json tools_;
};

}  // namespace veery
