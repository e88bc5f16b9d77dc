// chat_templates.h: the chat templates of a model and their capabilities.
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

/// The parsed templates of a model. As in transformers, conversations with tools use the template
/// "tool_use" if there is one, and all others the default template. Immutable and thread-safe.
class ChatTemplates {
 public:
  /// `special`: special tokens as template variables (special_token_variables()). `where`: prefix
  /// of template names in errors. Throws kFormat with line and column of a syntax error.
  ChatTemplates(ChatTemplateSources sources, Json special, const std::string& where);

  const ChatTemplate& pick(bool tools) const { return tools && tools_ ? *tools_ : *standard_; }
  const std::string& source(bool tools) const;
  /// Returns the syntax of reasoning and tool calls, detected in the templates.
  const AnswerFormat& answer_format() const { return format_; }
  const Json& special() const { return special_; }

  /// The features of a template, found by rendering test conversations.
  struct Traits {
    bool system = false;          ///< renders a system message at the start
    bool tools = false;           ///< renders tools
    bool calls = false;           ///< renders calls in assistant messages
    bool results = false;         ///< renders results of tools
    bool nine_letters = false;    ///< ids of calls must be nine letters or digits (Mistral)
    bool text_arguments = false;  ///< arguments of calls must be JSON text instead of objects
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
