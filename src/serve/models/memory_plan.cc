#include "serve/models/memory_plan.h"

#include <algorithm>
#include <optional>

#include "base/printable.h"
#include "serve/models/served_model.h"

namespace veery::serve {
namespace {

constexpr int32_t kLeastContext = 256;  // smaller ones are not chosen for the user

std::optional<MemoryPlan> try_plan(const ModelSource& source) {
  try {
    return plan_memory(source);
  } catch (const CachesTooSmall&) {
    return {};
  }
}

// Halves the context until it fits.
std::optional<int32_t> fitting_context(ModelSource source, int32_t context) {
  for (context /= 2; context >= kLeastContext; context /= 2) {
    source.load.context = context;
    if (try_plan(source)) return context;
  }
  return {};
}

// Returns the options that would make the model fit, for an error message.
std::string remedies(const ModelSource& source, int32_t context) {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", or ") + one; };
  if (const auto fits = fitting_context(source, context)) add(fmt::format("-c {}", *fits));
  ModelSource small = source;
  small.load.context = context;
  small.load.cache_keys = small.load.cache_values = DType::kQ8_0;
  const bool is_small =
      source.load.cache_keys == DType::kQ8_0 && source.load.cache_values == DType::kQ8_0;
  try {
    if (!is_small && try_plan(small)) add("-ctk q8_0 -ctv q8_0");
  } catch (const Error&) {  // the width of the heads does not allow q8_0
  }
  ModelSource few = source;
  few.load.context = context;
  few.scheduler.slots = 1;
  if (source.scheduler.slots > 1 && try_plan(few)) add("-np 1");
  return text.empty() ? "no smaller context or cache type fits either" : "would fit: " + text;
}

int32_t context_of(const ModelSource& source) {
  LoadOptions load = source.load;
  load.layout_only = true;
  return Model(source.path, load).options().context;
}

}  // namespace

MemoryPlan plan_memory(const ModelSource& source) {
  LoadOptions load = source.load;
  load.layout_only = true;
  load.warn = nullptr;
  ServedModel model(source.id, source.path, load, source.scheduler);
  MemoryPlan plan{.bytes = model.bytes(), .context = model.model().options().context};
  if (const Scheduler* scheduler = model.scheduler()) plan.slots = scheduler->slots();
  return plan;
}

MemoryPlan fit_memory(ModelSource& source, size_t memory) {
  source.scheduler.memory_bytes = memory;
  const int32_t wanted = source.scheduler.slots;
  std::string note;
  std::optional<MemoryPlan> plan;
  int32_t context = 0;
  try {
    plan = plan_memory(source);
  } catch (const CachesTooSmall& error) {
    context = context_of(source);
    const auto fits = source.load.context > 0 ? std::nullopt : fitting_context(source, context);
    if (!fits)
      throw CachesTooSmall(error.kind(), "{}: {}; {}", shown_path(source.path), error.what(),
                           remedies(source, context));
    source.load.context = *fits;
    plan = plan_memory(source);
    note = fmt::format("the context is {} instead of {} positions", *fits, context);
  }
  if (plan->slots > 0 && plan->slots < wanted) {
    note += fmt::format("{}{} instead of {} answers at a time", note.empty() ? "" : ", ",
                        plan->slots, wanted);
    source.scheduler.slots = plan->slots;
  }
  plan->note = note;
  return *plan;
}

}  // namespace veery::serve
