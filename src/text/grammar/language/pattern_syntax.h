// pattern_syntax.h: syntax tree of ECMA-262 regular expressions.
#pragma once
#include <string_view>
#include <vector>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

struct PatternNode {
  enum class Kind { kSet, kSequence, kChoice, kRepeat, kStart, kEnd, kLookAhead };
  Kind kind = Kind::kSequence;
  CodeSet set;                     ///< kSet
  std::vector<PatternNode> items;  ///< of kSequence and kChoice; the only item of other kinds
  int32_t least = 0, most = 0;     ///< kRepeat; most < 0: unbounded
  bool negated = false;            ///< kLookAhead
};

/// Throws as pattern_language() does.
PatternNode parse_pattern(std::string_view pattern);

}  // namespace veery::schema
