// call_rules.h: grammar rules shared by required calls (answer_rules.cc) and free calls.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "text/grammar/call_form.h"
#include "text/grammar/schema/rules.h"

namespace veery {

/// Returns an expression for `text`, a part of a CallForm. CallForm::kId matches any id.
std::string form_text(std::string_view text);

/// Returns the alternatives NAME middle ARGUMENTS, one per tool. `middle` is the expression between
/// name and arguments. Throws as schema::add_schema() and add_members() do; the message names the
/// tool.
std::string call_alternatives(const CallForm& form, std::span<const CallableTool> tools,
                              const std::string& middle, schema::Rules& rules);

/// Returns an empty set of rules for calls of `form`. If arguments are written between marks, JSON
/// strings escape `<` so that they cannot contain a mark.
schema::Rules rules_for(const CallForm& form);

}  // namespace veery
