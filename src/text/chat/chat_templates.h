// chat_templates.h: the chat templates of a model, which of them a conversation takes, and what
// they can express.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/chat_template.h"
#include "text/template_sources.h"

namespace veery {

/// Parsed templates. As transformers does, a conversation with tools takes the template "tool_use"
/// where there is one, any other the standard one. Immutable; safe to use from several threads.
class ChatTemplates {
 public:
  /// `special`: the special tokens as variables (special_token_variables()). `where` names the
  /// templates in errors. Throws kFormat naming line and column of a syntax error.
  ChatTemplates(ChatTemplateSources sources, Json special, const std::string& where);

  const ChatTemplate& pick(bool tools) const { return tools && tools_ ? *tools_ : *standard_; }
  const std::string& source(bool tools) const;
  /// How the model writes reasoning and tool calls, as its templates show.
  const AnswerFormat& answer_format() const { return format_; }
  const Json& special() const { return special_; }

  /// The parts of a conversation that a template renders, found by rendering probes.
  struct Traits {
    bool system = false;          ///< a first system message appears
    bool tools = false;           ///< tools appear
    bool calls = false;           ///< the calls of an assistant's message appear
    bool results = false;         ///< what a tool gave appears
    bool nine_letters = false;    ///< ids of calls must be nine letters or digits (Mistral's)
    bool text_arguments = false;  ///< arguments of calls must be JSON text, not objects
  };
  const Traits& traits(bool tools) const;

 private:
  Traits probe(bool tools) const;

  ChatTemplateSources sources_;
  Json special_;
  std::unique_ptr<ChatTemplate> standard_, tools_;
  AnswerFormat format_;
  mutable std::once_flag probed_[2];
  mutable Traits traits_[2];
};

}  // namespace veery
