// call_form.h: how a model calls tools, read off what its chat template makes of calls.
#pragma once
#include "engine/model.h"
#include "text/grammar/call_form.h"

namespace veery {

/// Throws kUnsupported, naming why, where the model has no template, its template has no place for
/// calls, or it writes their arguments neither as JSON nor as keys and values between marks.
CallForm find_call_form(const Model& model);
/// The same for other templates of the model.
CallForm find_call_form(const ChatTemplates& templates, const Model& model);

}  // namespace veery
