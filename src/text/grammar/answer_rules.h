// answer_rules.h: grammars of whole answers, in xgrammar's EBNF.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"

namespace veery {

/// An answer that is a JSON value of a schema. Throws as schema::add_schema() does.
std::string schema_rules(const Json& schema);

/// An answer that calls one of the tools, and with `several` one or more of them, if the form has a
/// joint. Throws as schema::add_schema() and add_members() do, naming the tool.
std::string call_rules(const CallForm& form, std::span<const CallableTool> tools, bool several);

/// Whether it can be told where in a text calls of the form begin.
bool marks_calls(const CallForm& form, const AnswerFormat& format);

/// An answer that is any text in which calls may begin, each one of a tool. What begins a call is
/// what AnswerParser takes for one, so that no call escapes the schemas. `start`: where the answer
/// begins. For forms with marks_calls(). Throws as call_rules() does.
std::string free_call_rules(const CallForm& form, std::span<const CallableTool> tools,
                            const AnswerFormat& format, AnswerMode start);

}  // namespace veery
