// generate.h: one answer, waited for.
#pragma once
#include <functional>
#include <string_view>

#include "schedule/scheduler.h"

namespace veery {

/// Called with the text that came since the last call and, without text, some twenty times a second
/// while there is none. False: end here.
using OnText = std::function<bool(std::string_view)>;

/// A scheduler for one user: one answer at a time, and what the caches hold of the last one is
/// there for the next (a chat).
SchedulerOptions single_user();

/// Submits the request, hands out its text as it comes and waits for its end. Throws what submit()
/// throws, what ended the answer, and what `on_text` throws; the answer is cancelled then.
Generation generate(Scheduler& scheduler, GenerateRequest request, const OnText& on_text = {});

}  // namespace veery
