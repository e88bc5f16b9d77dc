// call_rules.h: the parts of a grammar that write calls.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "text/grammar/call_form.h"
#include "text/grammar/schema/rules.h"

namespace veery {

/// An expression for a text of a form; the id of a call may be any.
std::string form_text(std::string_view text);

/// The alternatives of a call from the name on; `middle` is an expression for what stands between
/// name and arguments. Throws as
/// schema::add_schema() and add_members() do, naming the tool.
std::string call_alternatives(const CallForm& form, std::span<const CallableTool> tools,
                              const std::string& middle, schema::Rules& rules);

/// The rules of calls of a form; strings of JSON between marks hold no mark.
schema::Rules rules_for(const CallForm& form);

}  // namespace veery
