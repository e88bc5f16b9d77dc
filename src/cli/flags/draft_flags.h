// draft_flags.h: flags of speculative decoding (schedule/drafts/draft.h).
#pragma once
#include <string>

#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "schedule/scheduler.h"

namespace veery::cli {

class DraftFlags {
 public:
  void add(Arguments& app);
  /// Sets the draft options. Loads the draft model with the flags of `like`. Throws Misuse for a
  /// draft model with --draft-max 0, and as loading does.
  void set(SchedulerOptions& options, const ModelArguments& like) const;

 private:
  int64_t tokens_ = kMostDrafted;
  std::string model_;
};

}  // namespace veery::cli
