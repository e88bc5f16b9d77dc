// scheduler_flags.h: flags of verbs that answer several requests at the same time.
#pragma once
#include <cstdint>

#include "cli/flags/draft_flags.h"

namespace veery::cli {

class SchedulerFlags {
 public:
  void add(Arguments& app);
  /// Records which flags were given: only the others may be reduced if memory is short.
  void note_given(const Arguments& app);
  /// Returns the options of the flags. Loads the draft model with the flags of `like`.
  SchedulerOptions options(const ModelArguments& like) const;
  int32_t slots() const { return static_cast<int32_t>(slots_); }

 private:
  int64_t slots_ = 8, cache_ = 0, kept_ = 16;
  bool slots_given_ = false, cache_given_ = false;
  DraftFlags draft_;
};

}  // namespace veery::cli
