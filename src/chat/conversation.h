// conversation.h: renders messages and tools to the prompt of the next answer and its parser.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model.h"
#include "text/answer/answer_parser.h"
#include "text/grammar/call_form.h"
#include "text/tokenizer.h"

namespace veery {

/// The input of a chat template.
struct Conversation {
  Json messages;                    ///< in the form of transformers
  Json tools = nullptr;             ///< [{"type": "function", "function": {...}}] or null
  Json callable = nullptr;          ///< all tools that may be called, if more than `tools`; or null
  Json variables = Json::object();  ///< further variables of the template
  bool generation_prompt = true;    ///< end with the beginning of an answer
  /// The last message is the beginning of the answer (prefill). Absent: true if it is an assistant
  /// message without calls and not the only message.
  std::optional<bool> continue_last = {};
  /// Treats control tokens in messages and tools as tokens, not as text. Absent:
  /// LoadOptions::parse_special.
  std::optional<bool> parse_special = {};
  /// Moves a first system message that the template would leave out to the beginning of the first
  /// user message (keep_first_system()). False for callers that warn about it instead.
  bool keep_system = true;
  /// In place of the model's templates.
  std::shared_ptr<const ChatTemplates> templates = nullptr;
};

struct RenderedConversation {
  std::string text = {};
  std::vector<int32_t> ids = {};
  AnswerFormat format = {};                   ///< of the answer
  AnswerParser parser{AnswerFormat()};        ///< for the answer
  bool begun = false;                         ///< the answer continues the last message
  std::optional<CallForm> generic_form = {};  ///< absent: calls have the syntax of the template
  std::string guarded_text = {}, guard = {};  ///< text with marks of ControlGuard, and the mark
};

/// Renders the conversation with the templates of the model and encodes it. Beyond what
/// transformers does:
/// - it completes tools without description or parameters, and writes tools, calls and results as
///   text if the template does not render them (generic_calls.h);
/// - it replaces ids of calls by nine letters if the template accepts no others (Mistral);
/// - it moves system and developer messages to where the template renders them
///   (system_messages.h);
/// - it adds empty content to messages without content if the template fails otherwise;
/// - it treats control tokens in messages and tools as text.
/// `lost` counts bytes that became no token. Throws kUnsupported if the model has no template,
/// kInput or kFormat if the template refuses the messages.
RenderedConversation render_conversation(const Model& model, const Conversation& conversation,
                                         LostBytes* lost = nullptr);

/// Returns other templates for the model: `choice` is the name of one of its templates, or Jinja
/// source. Throws kInput listing the names for an unknown one.
std::shared_ptr<const ChatTemplates> other_templates(const Model& model, std::string_view choice);

}  // namespace veery
