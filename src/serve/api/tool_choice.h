// tool_choice.h: which tools a model may call, and whether it must.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "schedule/ticket.h"
#include "serve/api/fields.h"
#include "serve/api/prompt.h"
#include "serve/models/models.h"

namespace veery::serve {

struct ToolChoice {
  bool none = false;      ///< the model is not told of any
  bool must = false;      ///< the answer is calls and nothing else
  std::string name = {};  ///< of the one tool that must be called; empty: any of them
  bool several = true;    ///< more than one call
  std::vector<std::string> allowed = {};  ///< the model is told of these only; empty: of all
};

/// The function that stands for a tool of a namespace, which may be empty.
std::string function_name(const std::string& space, const std::string& name);

/// OpenAI's tool_choice and parallel_tool_calls, of chat completions and of responses: a word, a
/// function, a custom tool, or a list of allowed tools.
ToolChoice read_tool_choice(const Fields& fields);

/// Those of `tools` (as templates take them, or null) that the choice allows.
Json allowed_tools(const ToolChoice& choice, const Json& tools);

/// Ends an answer after its first call where the request allows one call only. A model that was
/// not forced to call may write more of them.
class CallLimit {
 public:
  explicit CallLimit(const ToolChoice& choice) : one_(!choice.several) {}

  /// Removes what comes after the first call. True: that call is complete.
  bool apply(std::vector<AnswerDelta>& deltas);
  /// The answer without what came after the first call, of which all deltas were applied before.
  ParsedAnswer limited(ParsedAnswer answer) const;

 private:
  bool one_, over_ = false;
  std::string content_, reasoning_;  // before the end of the first call
};

/// If a call is forced, holds the answer to the form in which the model writes calls of the tools
/// of `prompt`, which `chat` was rendered from. Throws ApiError if there is no such tool, the model
/// writes calls in a form that cannot be kept, a schema has a keyword that cannot be kept, or
/// `request` has a form of its own.
///
/// If the answer may also be text, its calls of tools that are `strict` keep to their schemas,
/// unless `request` has a form of its own. A model whose calls cannot be told from text answers
/// without that; `reply` then names `strict_field` as ignored.
void hold_to_calls(const ToolChoice& choice, const ChatPrompt& prompt, const RenderedChat& chat,
                   ServedModel& model, GenerateRequest& request, Reply& reply,
                   const char* strict_field = "tools[].strict");

}  // namespace veery::serve
