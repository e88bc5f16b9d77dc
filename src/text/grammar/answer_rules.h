// answer_rules.h: grammars of whole answers, in xgrammar's EBNF.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "text/grammar/call_form.h"

namespace veery {

/// An answer that is a JSON value of a schema. Throws as schema::add_schema() does.
std::string schema_rules(const Json& schema);

/// An answer that calls one of the tools, and with `several` one or more of them, if the form has a
/// joint. Throws as schema::add_schema() does, naming the tool.
std::string call_rules(const CallForm& form, std::span<const CallableTool> tools, bool several);

}  // namespace veery
