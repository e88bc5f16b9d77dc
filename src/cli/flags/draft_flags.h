// draft_flags.h: the flags by which drafts are made (schedule/draft.h).
#pragma once
#include <string>

#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "schedule/scheduler.h"

namespace veery::cli {

class DraftFlags {
 public:
  void add(Arguments& app);
  /// Sets what of the options is about drafts. Loads the model that makes them, as `like` is
  /// loaded. Throws Misuse for drafts of no tokens by a model, and what loading throws.
  void set(SchedulerOptions& options, const ModelArguments& like) const;

 private:
  int64_t tokens_ = kMostDrafted;
  std::string model_;
};

}  // namespace veery::cli
