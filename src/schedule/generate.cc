#include "schedule/generate.h"

#include <utility>

namespace veery {
namespace {

constexpr double kPollSeconds = 0.05;

}  // namespace

SchedulerOptions single_user() { return {.slots = 1, .kept = 1}; }

Generation generate(Scheduler& scheduler, GenerateRequest request, const OnText& on_text) {
  const auto ticket = scheduler.submit(std::move(request));
  AnswerPart part;
  try {
    while (on_text ? ticket->next_within(part, kPollSeconds) : ticket->next(part))
      if (on_text && !on_text(part.text)) ticket->cancel();
  } catch (...) {
    ticket->cancel();
    throw;
  }
  return ticket->result();
}

}  // namespace veery
