// schema_grammar.h: a JSON schema as a grammar of the values that it admits.
#pragma once
#include <string>

#include "base/json.h"
#include "text/grammar/schema/member_marks.h"
#include "text/grammar/schema/rules.h"

namespace veery::schema {

/// Adds the rules of a schema and returns the expression for a value of it: one line, a space after
/// each comma and colon, members in the order of the schema. The grammar admits no value that the
/// schema refuses. It leaves out members that neither properties nor patternProperties nor
/// additionalProperties mentions, other orders of members and other spellings of strings and
/// numbers. Throws kInput for a malformed schema or one without a value, kUnsupported for a keyword
/// that cannot be kept, kLimit for one that is too large; each message names the place.
std::string add_schema(const Json& schema, Rules& rules);

/// The same for the members of an object that are written between marks, without what stands around
/// them. Strings are what AnswerWriter reads as one: a value that may also be something else holds
/// no text that looks like it. `rules` must escape `<`. Throws kUnsupported too for names and
/// values that the marks cannot hold.
std::string add_members(const Json& schema, const MemberMarks& marks, Rules& rules);

}  // namespace veery::schema
