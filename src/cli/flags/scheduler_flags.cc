#include "cli/flags/scheduler_flags.h"

#include <unistd.h>

namespace veery::cli {
namespace {

size_t quarter_of_memory() {
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)) / 4;
}

}  // namespace

void SchedulerFlags::add(Arguments& app) {
  app.option("--parallel", slots_, "Answers generated at the same time (also -np)")
      .type_name("N")
      .whole_number(1, kMostSlots)
      .show_default();
  app.option("--cache-memory", cache_,
             "Limit of KV cache memory for a model, in megabytes; 0: a quarter of RAM\nor one full "
             "context, whichever is more [0]")
      .type_name("MB")
      .whole_number(0, 1 << 24);
  app.option("--keep", kept_,
             "Cached conversations with room for sliding windows and recurrent states;\n0: no "
             "prefix cache")
      .type_name("N")
      .whole_number(0, kMostKept)
      .show_default();
  draft_.add(app);
}

void SchedulerFlags::note_given(const Arguments& app) {
  slots_given_ = app.count("--parallel") > 0;
  cache_given_ = app.count("--cache-memory") > 0 && cache_ > 0;
}

SchedulerOptions SchedulerFlags::options(const ModelArguments& like) const {
  SchedulerOptions options{
      .slots = slots(),
      .kept = static_cast<int32_t>(kept_),
      .cache_bytes = cache_ > 0 ? static_cast<size_t>(cache_) * 1000000 : quarter_of_memory(),
      .at_least_one = !cache_given_,
      .fewer_slots = !slots_given_};
  draft_.set(options, like);
  return options;
}

}  // namespace veery::cli
