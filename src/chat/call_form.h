// call_form.h: derives the syntax of tool calls from the chat template of a model.
#pragma once
#include "engine/model.h"
#include "text/grammar/call_form.h"

namespace veery {

/// Returns the syntax in which the template renders calls. Throws kUnsupported with the reason if
/// the model has no template, or if the template does not render calls, or renders their arguments
/// neither as JSON nor as keys and values between marks.
CallForm find_call_form(const Model& model);
/// The same for other templates.
CallForm find_call_form(const ChatTemplates& templates, const Model& model);

}  // namespace veery
