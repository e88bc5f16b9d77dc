// rule_check.h: rules of a grammar from which no text can come.
#pragma once
#include <string>

#include "base/json.h"

namespace veery {

/// Checks a grammar as xgrammar serialises it before it is compiled. Throws kInput, naming the
/// rule, if a rule that the root leads to derives no text: an answer that entered it could never
/// end.
void check_rules(const Json& grammar);

}  // namespace veery
