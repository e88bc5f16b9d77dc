// conversation.h: from messages and tools to the prompt of the next answer, and how that answer is
// read.
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
  Json messages;                    ///< as templates take them
  Json tools = nullptr;             ///< [{"type": "function", "function": {...}}] or null
  Json callable = nullptr;          ///< all that may be called, if more than `tools`; or null
  Json variables = Json::object();  ///< of the template, beside the usual ones
  bool generation_prompt = true;    ///< ends with what begins an answer
  /// The last message is the beginning of the answer (prefill). Absent: if it is the assistant's,
  /// without calls, and others come before it.
  std::optional<bool> continue_last = {};
  /// Control tokens in messages and tools are tokens; otherwise they are text.
  /// Absent: as LoadOptions::parse_special says.
  std::optional<bool> parse_special = {};
  /// A first system message that the template would leave out begins the first message of the
  /// user (keep_first_system()). False: the template leaves it out, for callers that say so.
  bool keep_system = true;
  /// In place of the model's templates.
  std::shared_ptr<const ChatTemplates> templates = nullptr;
};

struct RenderedConversation {
  std::string text = {};
  std::vector<int32_t> ids = {};
  AnswerFormat format = {};                   ///< what the answer is written in
  AnswerParser parser{AnswerFormat()};        ///< for the answer
  bool begun = false;                         ///< the answer continues a text
  std::optional<CallForm> generic_form = {};  ///< absent: calls are written as the template does
  std::string guarded_text = {}, guard = {};  ///< with the marks of ControlGuard, and the mark
};

/// Renders the conversation with the templates of the model and encodes it. Beyond what
/// transformers does:
/// - tools without description or parameters are completed; where the template has no place for
///   tools, their calls or results, these are written as text (generic_calls.h);
/// - ids of calls become nine letters where the template takes no others (Mistral);
/// - system and developer messages stand where the template renders them (system_messages.h);
/// - a message without content gets an empty one if the template fails without;
/// - control tokens in messages and tools are text.
/// `lost` counts bytes that became no token. Throws kUnsupported if the model has no template,
/// kInput or kFormat if the template refuses the messages.
RenderedConversation render_conversation(const Model& model, const Conversation& conversation,
                                         LostBytes* lost = nullptr);

/// Templates in place of the model's: one of those by name, or a source. Throws kInput naming those
/// that there are.
std::shared_ptr<const ChatTemplates> other_templates(const Model& model, std::string_view choice);

}  // namespace veery
