// answer_rules.h: grammars of whole answers, in xgrammar's EBNF.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"

namespace veery {

/// Returns the grammar of an answer that is one JSON value valid under `schema`. Throws as
/// schema::add_schema() does.
std::string schema_rules(const Json& schema);

/// Returns the grammar of an answer that calls one of the tools, or one or more of them if
/// `several` is set and the form has a separator. Throws as schema::add_schema() and add_members()
/// do; the message names the tool.
std::string call_rules(const CallForm& form, std::span<const CallableTool> tools, bool several);

/// Returns whether the start of a call of this form can be recognised within text.
bool marks_calls(const CallForm& form, const AnswerFormat& format);

/// Returns the grammar of an answer that is free text in which calls of the tools may occur.
/// A call starts wherever AnswerParser would start one, so every call is checked against its
/// schema.
/// `start` is the parser mode at the beginning of the answer. Requires marks_calls(). Throws as
/// call_rules() does.
std::string free_call_rules(const CallForm& form, std::span<const CallableTool> tools,
                            const AnswerFormat& format, AnswerMode start);

}  // namespace veery
