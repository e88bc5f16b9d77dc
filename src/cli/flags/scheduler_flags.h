// scheduler_flags.h: the flags of verbs that answer many requests at once.
#pragma once
#include <cstdint>

#include "cli/flags/draft_flags.h"

namespace veery::cli {

class SchedulerFlags {
 public:
  void add(Arguments& app);
  /// Which of them were given: only others may be changed where memory is short.
  void note_given(const Arguments& app);
  /// As the flags say; loads the model that makes drafts as `like` is loaded.
  SchedulerOptions options(const ModelArguments& like) const;
  int32_t slots() const { return static_cast<int32_t>(slots_); }

 private:
  int64_t slots_ = 8, cache_ = 0, kept_ = 16;
  bool slots_given_ = false, cache_given_ = false;
  DraftFlags draft_;
};

}  // namespace veery::cli
