// schema_grammar.h: converts a JSON schema to a grammar of its values.
#pragma once
#include <string>

#include "base/json.h"
#include "text/grammar/schema/marked_values.h"
#include "text/grammar/schema/rules.h"

namespace veery::schema {

/// Adds the rules of a schema and returns the expression for a value of it: one line, a space after
/// each comma and colon, members in the order of the schema.
///
/// The grammar accepts only values that satisfy the schema. It does not accept all of them: it
/// omits members that neither properties nor patternProperties nor additionalProperties mentions,
/// other orders of members and other spellings of strings and numbers.
///
/// Throws kInput for a malformed schema or one without a value, kUnsupported for a keyword that
/// cannot be enforced and kLimit for a schema that is too large; the message names the location.
std::string add_schema(const Json& schema, Rules& rules);

/// The same for the members of an object written between marks, without the text around them. A
/// value that may be a string or another type excludes strings that AnswerWriter would read as the
/// other type. `rules` must escape `<`. Throws kUnsupported also for names and values that cannot
/// be written between the marks.
std::string add_members(const Json& schema, const MarkLanguages& languages, Rules& rules);

}  // namespace veery::schema
