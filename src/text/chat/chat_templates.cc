#include "text/chat/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

constexpr std::string_view kToolTemplate = "tool_use";

// Texts that do not occur in templates.
constexpr std::string_view kSystem = "veery probe system";
constexpr std::string_view kTool = "veery_probe_tool";
constexpr std::string_view kCall = "veery_probe_call";
constexpr std::string_view kResult = "veery probe result";
constexpr std::string_view kLongId = "call_0123456789abcdefghijkl";
constexpr std::string_view kShortId = "veeryId01";

Json function_tool(std::string_view name) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", "a description"},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"x", {{"type", "string"}, {"description", "a letter"}}}}},
              {"required", Json::array({"x"})}}}}}};
}

Json question() { return {{"role", "user"}, {"content", "a question"}}; }

// A conversation of question, call, result, answer and another question.
Json turns(std::string_view id, bool text_arguments) {
  const Json arguments = text_arguments ? Json(R"({"x": "1"})") : Json{{"x", "1"}};
  const Json call = {
      {"id", id}, {"type", "function"}, {"function", {{"name", kCall}, {"arguments", arguments}}}};
  return Json::array(
      {question(),
       {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}},
       {{"role", "tool"}, {"name", kCall}, {"tool_call_id", id}, {"content", kResult}},
       {{"role", "assistant"}, {"content", "so"}},
       question()});
}

bool contains(const std::optional<std::string>& text, std::string_view part) {
  return text && text->find(part) != std::string::npos;
}

}  // namespace

ChatTemplates::ChatTemplates(ChatTemplateSources sources, Json special, const std::string& where)
    : sources_(std::move(sources)), special_(std::move(special)) {
  const std::string* for_tools = sources_.find(kToolTemplate);
  // A model whose only template is "tool_use" uses it for all conversations.
  if (sources_.standard.empty() && for_tools != nullptr) sources_.standard = *for_tools;
  if (sources_.standard.empty() && !sources_.named.empty())
    sources_.standard = sources_.named.front().second;
  standard_ = std::make_unique<ChatTemplate>(sources_.standard, where + ": chat template");
  std::string all = sources_.standard;
  if (for_tools != nullptr) {
    tools_ = std::make_unique<ChatTemplate>(*for_tools, where + ": chat template tool_use");
    all += *for_tools;
  }
  format_ = AnswerFormat::of_template(all);
}

const std::string& ChatTemplates::source(bool tools) const {
  const std::string* found = tools ? sources_.find(kToolTemplate) : nullptr;
  return found != nullptr ? *found : sources_.standard;
}

const ChatTemplates::Traits& ChatTemplates::traits(bool tools) const {
  const size_t which = tools && tools_ ? 1 : 0;
  std::call_once(probed_[which], [&] { traits_[which] = probe(which == 1); });
  return traits_[which];
}

ChatTemplates::Traits ChatTemplates::probe(bool tools) const {
  const ChatTemplate& chat = pick(tools);
  // Returns nullopt if the template raises an error.
  const auto render = [&](Json messages, Json list) -> std::optional<std::string> {
    Json variables = {{"messages", template_messages(messages)},
                      {"tools", std::move(list)},
                      {"documents", nullptr},
                      {"add_generation_prompt", true}};
    variables.update(special_);
    try {
      return chat.render(variables);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      return std::nullopt;
    }
  };
  const Json system = {{"role", "system"}, {"content", kSystem}};
  const Json list = Json::array({function_tool(kTool), function_tool(kCall)});
  Traits traits;
  traits.system = contains(render(Json::array({system, question()}), nullptr), kSystem);
  traits.tools = contains(render(Json::array({question()}), list), kTool) ||
                 contains(render(Json::array({system, question()}), list), kTool);
  // Uses the first form of calls that the template accepts and renders.
  const Json others = Json::array({function_tool(kTool)});
  for (const bool text : {false, true})
    for (const std::string_view id : {kLongId, kShortId}) {
      const std::optional<std::string> found = render(turns(id, text), others);
      if (!contains(found, kCall)) continue;
      traits.calls = true;
      traits.results = contains(found, kResult);
      traits.text_arguments = text;
      traits.nine_letters = id == kShortId;
      return traits;
    }
  return traits;
}

}  // namespace veery
