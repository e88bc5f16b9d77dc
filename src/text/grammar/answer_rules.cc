#include "text/grammar/answer_rules.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "text/grammar/call_rules.h"
#include "text/grammar/schema/schema_grammar.h"

namespace veery {

std::string form_text(std::string_view text) {
  std::string rule;
  while (!text.empty()) {
    const size_t id = text.find(CallForm::kId);
    if (id > 0) rule += schema::terminal(text.substr(0, id)) + " ";
    if (id == std::string_view::npos) break;
    rule += "[a-zA-Z0-9]{9} ";
    text.remove_prefix(id + CallForm::kId.size());
  }
  return rule;
}

schema::Rules rules_for(const CallForm& form) { return schema::Rules(!form.members.key.empty()); }

std::string call_alternatives(const CallForm& form, std::span<const CallableTool> tools,
                              const std::string& middle, schema::Rules& rules) {
  std::string calls;
  const bool marked = !form.members.key.empty();
  std::optional<schema::MarkLanguages> languages;
  for (const CallableTool& tool : tools) {
    std::string arguments;
    try {
      Json parameters = tool.parameters.is_null() ? Json::object() : tool.parameters;
      if (parameters.is_object() && !parameters.contains("type")) parameters["type"] = "object";
      if (marked && !languages) languages.emplace(form.members);
      arguments = marked ? schema::add_members(parameters, *languages, rules)
                         : schema::add_schema(parameters, rules);
    } catch (const Error& error) {
      throw Error(error.kind(), "tools: '{}': {}", printable(tool.name, 60), error.what());
    }
    calls +=
        (calls.empty() ? "" : " | ") + schema::terminal(tool.name) + " " + middle + " " + arguments;
  }
  return calls;
}

std::string schema_rules(const Json& schema) {
  schema::Rules rules;
  const std::string root = schema::add_schema(schema, rules);
  return rules.text(root);
}

std::string call_rules(const CallForm& form, std::span<const CallableTool> tools, bool several) {
  schema::Rules rules = rules_for(form);
  const std::string call = rules.add(call_alternatives(form, tools, form_text(form.middle), rules));
  // Whitespace between reasoning and a call is not part of the form, so it is allowed first.
  std::string root = "\"\\n\"{0,2} " + form_text(form.open) + call;
  if (several && !form.separator.empty())
    root += " " + rules.add(form_text(form.separator) + call) + "*";
  return rules.text(root + " " + form_text(form.close));
}

}  // namespace veery
