// tool_choice.h: which tools a model may or must call.
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
  bool none = false;                      ///< the prompt has no tools
  bool must = false;                      ///< the answer consists of calls only
  std::string name = {};                  ///< the tool that must be called; empty: any
  bool several = true;                    ///< the answer may have more than one call
  std::vector<std::string> allowed = {};  ///< the tools in the prompt; empty: all
};

/// Returns the name of the function that represents a tool of a namespace, which may be empty.
std::string function_name(const std::string& space, const std::string& name);

/// Reads tool_choice and parallel_tool_calls of OpenAI's chat completions and responses. A choice
/// is a word, a function, a custom tool or a list of allowed tools.
ToolChoice read_tool_choice(const Fields& fields);

/// Returns the tools that the choice allows. `tools`: in the format of templates, or null.
Json allowed_tools(const ToolChoice& choice, const Json& tools);

/// Ends an answer after its first call if the request allows only one. A model that was not forced
/// to call a tool may write several calls.
class CallLimit {
 public:
  explicit CallLimit(const ToolChoice& choice) : one_(!choice.several) {}

  /// Removes the deltas after the first call. Returns true if that call is complete.
  bool apply(std::vector<AnswerDelta>& deltas);
  /// Returns the answer without its text and calls after the first call. apply() must have seen all
  /// deltas.
  ParsedAnswer limited(ParsedAnswer answer) const;

 private:
  bool one_, over_ = false;
  std::string content_, reasoning_;  // before the end of the first call
};

/// Constrains the calls of an answer. `prompt`: has the tools; `chat`: was rendered from it.
///
/// If a call is forced, the answer is constrained to calls in the format of the model. Throws
/// ApiError if there is no such tool, if the model's format of calls or a keyword of a schema is
/// not supported, or if `request` already has a grammar.
///
/// If the answer may also be text, its calls of `strict` tools are constrained to their schemas,
/// unless `request` already has a grammar. If calls of the model cannot be distinguished from text,
/// they are not constrained, and `reply` names `strict_field` as ignored.
void constrain_calls(const ToolChoice& choice, const ChatPrompt& prompt, const RenderedChat& chat,
                     ServedModel& model, GenerateRequest& request, Reply& reply,
                     const char* strict_field = "tools[].strict");

}  // namespace veery::serve
