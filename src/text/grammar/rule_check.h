// rule_check.h: detects grammar rules that cannot derive a finite text.
#pragma once
#include <string>

#include "base/json.h"

namespace veery {

/// Checks a grammar, serialised by xgrammar, before it is compiled. Throws kInput, naming the rule,
/// if a rule reachable from the root derives no finite text: an answer that entered it could never
/// end.
void check_rules(const Json& grammar);

}  // namespace veery
