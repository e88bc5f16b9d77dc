// generate.h: generates one answer and waits for it.
#pragma once
#include <functional>
#include <string_view>

#include "schedule/scheduler.h"

namespace veery {

/// Called with the text since the last call, and with an empty text about twenty times a second
/// while there is none. Returns false to cancel the answer.
using OnText = std::function<bool(std::string_view)>;

/// Returns options for one user: one answer at a time, and the last one stays in the prefix cache
/// for the next (a chat).
SchedulerOptions single_user();

/// Submits the request, passes its text to `on_text` as it arrives and returns the whole answer.
/// Throws as submit() does, the error of the answer, and exceptions of `on_text`; the answer is
/// cancelled then.
Generation generate(Scheduler& scheduler, GenerateRequest request, const OnText& on_text = {});

}  // namespace veery
