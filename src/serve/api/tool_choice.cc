#include "serve/api/tool_choice.h"

#include <fmt/format.h>

#include <vector>

#include "base/printable.h"
#include "engine/call_form.h"
#include "serve/api/api_error.h"

namespace veery::serve {
namespace {

constexpr const char* kField = "tool_choice";

}  // namespace

ToolChoice read_tool_choice(const Fields& fields) {
  ToolChoice result{.several = fields.flag("parallel_tool_calls").value_or(true)};
  const Json* choice = fields.find(kField);
  if (choice == nullptr || *choice == "auto") return result;
  result.none = *choice == "none";
  result.must = *choice == "required";
  if (result.none || result.must) return result;
  if (!choice->is_object())
    fields.fail(kField,
                "\"auto\", \"none\", \"required\" or an object with the name of a function");
  const Fields object(*choice, "tool_choice.");
  if (const std::string type = object.require_text("type"); type != "function")
    object.fail("type", "function");
  const Json* function = object.object("function");
  result.must = true;
  result.name = function != nullptr
                    ? Fields(*function, "tool_choice.function.").require_text("name")
                    : object.require_text("name");
  return result;
}

void hold_to_calls(const ToolChoice& choice, const Json& tools, ServedModel& model,
                   const AnswerParser& parser, GenerateRequest& request) {
  if (!choice.must) return;
  if (request.grammar)
    throw ApiError(400, "tool_choice: a call is forced, so the answer has no other form", kField);
  std::vector<CallableTool> callable;
  for (const Json& tool : tools.is_array() ? tools : Json::array()) {
    const Json& function = tool["function"];
    const Json* parameters = function.member("parameters");
    if (choice.name.empty() || function["name"] == choice.name)
      callable.push_back({function["name"].string(),
                          parameters != nullptr && parameters->is_object() && !parameters->empty()
                              ? *parameters
                              : Json()});
  }
  if (callable.empty())
    throw ApiError(400,
                   choice.name.empty() ? "tool_choice: there are no tools to call"
                                       : fmt::format("tool_choice: there is no tool '{}'",
                                                     printable(choice.name, 100)),
                   kField);
  try {
    const bool several = choice.several && choice.name.empty();
    request.grammar = model.grammars().calls(model.call_form(), callable, several);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("tool_choice: {}", error.what()), kField);
  }
  request.grammar_after = parser.reasoning_end();
}

}  // namespace veery::serve
