#include "serve/api/tool_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/printable.h"
#include "chat/call_form.h"
#include "serve/api/api_error.h"
#include "text/grammar/answer_rules.h"

namespace veery::serve {
namespace {

constexpr const char* kField = "tool_choice";

// The name is one level deeper in chat completions than in responses, whose tools may have a
// namespace.
std::string name_of(const Fields& tool, const std::string& type) {
  if (const Json* inner = tool.object(type.c_str()))
    return Fields(*inner, tool.name((type + ".").c_str())).require_text("name");
  return function_name(tool.text("namespace").value_or(""), tool.require_text("name"));
}

void read_allowed(const Fields& choice, ToolChoice& result) {
  const Json* inner = choice.object("allowed_tools");
  const Fields list(inner != nullptr ? *inner : choice.json(),
                    inner != nullptr ? choice.name("allowed_tools.") : choice.name(""));
  const std::string mode = list.text("mode").value_or("auto");
  if (mode != "auto" && mode != "required") list.fail("mode", "auto or required");
  result.must = mode == "required";
  const Json& tools = list.require_array("tools");
  for (size_t i = 0; i < tools.size(); ++i) {
    const Fields tool(tools[i], fmt::format("{}[{}].", list.name("tools"), i));
    const std::string type = tool.text("type").value_or("function");
    if (type == "function" || type == "custom") result.allowed.push_back(name_of(tool, type));
  }
  if (result.allowed.empty()) list.fail("tools", "a list of functions");
}

}  // namespace

std::string function_name(const std::string& space, const std::string& name) {
  constexpr std::string_view kSeparator = "__";
  if (space.empty()) return name;
  return space + (space.ends_with(kSeparator) ? "" : std::string(kSeparator)) + name;
}

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
  const std::string type = object.require_text("type");
  if (type == "allowed_tools") {
    read_allowed(object, result);
    return result;
  }
  if (type != "function" && type != "custom")
    object.fail("type", "function, custom or allowed_tools");
  result.must = true;
  result.name = name_of(object, type);
  return result;
}

Json allowed_tools(const ToolChoice& choice, const Json& tools) {
  if (choice.allowed.empty() || !tools.is_array()) return tools;
  Json result;
  for (const Json& tool : tools)
    if (std::ranges::find(choice.allowed, tool["function"]["name"].string()) !=
        choice.allowed.end())
      result.push_back(tool);
  return result;
}

bool CallLimit::apply(std::vector<AnswerDelta>& deltas) {
  if (!one_) return false;
  std::erase_if(deltas, [&](const AnswerDelta& delta) {
    if (over_) return true;
    over_ = delta.kind == AnswerDelta::Kind::kCallEnd;
    if (delta.kind == AnswerDelta::Kind::kContent) content_ += delta.text;
    if (delta.kind == AnswerDelta::Kind::kReasoning) reasoning_ += delta.text;
    return false;
  });
  return over_;
}

ParsedAnswer CallLimit::limited(ParsedAnswer answer) const {
  if (!over_) return answer;
  answer.content = content_;
  answer.reasoning = reasoning_;
  answer.calls.resize(1);
  return answer;
}

namespace {

CallForm form_of(const ChatPrompt& prompt, const RenderedChat& chat, ServedModel& model) {
  if (chat.generic_form) return *chat.generic_form;
  return prompt.templates ? find_call_form(*prompt.templates, model.model()) : model.call_form();
}

std::vector<CallableTool> callable_tools(const ToolChoice& choice, const ChatPrompt& prompt) {
  std::vector<CallableTool> callable;
  const Json& tools = prompt.callable.is_null() ? prompt.tools : prompt.callable;
  for (size_t i = 0; tools.is_array() && i < tools.size(); ++i) {
    const Json& function = tools[i]["function"];
    const bool strict =
        Fields(function, fmt::format("tools[{}].function.", i)).flag("strict").value_or(false);
    const Json* parameters = function.member("parameters");
    const bool described = parameters != nullptr && parameters->is_object() && !parameters->empty();
    if (choice.name.empty() || function["name"] == choice.name)
      callable.push_back({function["name"].string(), described ? *parameters : Json(), strict});
  }
  return callable;
}

// Calls `make`. Its errors name the field that requires the grammar.
template <typename Make>
auto form_or_error(const char* field, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("{}: {}", field, error.what()), field);
  }
}

// Constrains calls of strict tools in answers that may also be text.
void constrain_strict_calls(const ToolChoice& choice, const ChatPrompt& prompt,
                            const RenderedChat& chat, ServedModel& model, GenerateRequest& request,
                            Reply& reply, const char* strict_field) {
  const std::vector<CallableTool> tools = callable_tools(choice, prompt);
  if (choice.none || request.grammar || std::ranges::none_of(tools, &CallableTool::strict)) return;
  std::optional<CallForm> form;
  try {
    if (GrammarCompiler::available()) form = form_of(prompt, chat, model);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
  if (!form || !marks_calls(*form, chat.format)) {
    reply.add_header("Veery-Ignored-Fields", strict_field);
    return;
  }
  request.grammar = form_or_error("tools", [&] {
    return model.grammars().free_calls(*form, tools, chat.format, chat.parser.mode());
  });
}

}  // namespace

void constrain_calls(const ToolChoice& choice, const ChatPrompt& prompt, const RenderedChat& chat,
                     ServedModel& model, GenerateRequest& request, Reply& reply,
                     const char* strict_field) {
  if (!choice.must)
    return constrain_strict_calls(choice, prompt, chat, model, request, reply, strict_field);
  if (request.grammar)
    throw ApiError(
        400, "tool_choice: a forced call cannot be combined with another format of the answer",
        kField);
  const std::vector<CallableTool> tools = callable_tools(choice, prompt);
  if (tools.empty())
    throw ApiError(400,
                   choice.name.empty() ? "tool_choice: there are no tools to call"
                                       : fmt::format("tool_choice: there is no tool '{}'",
                                                     printable(choice.name, 100)),
                   kField);
  request.grammar = form_or_error(kField, [&] {
    const bool several = choice.several && choice.name.empty();
    return model.grammars().calls(form_of(prompt, chat, model), tools, several);
  });
  request.grammar_after = chat.parser.reasoning_end();
}

}  // namespace veery::serve
