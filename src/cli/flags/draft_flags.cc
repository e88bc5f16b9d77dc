#include "cli/flags/draft_flags.h"

#include "cli/output/progress.h"

namespace veery::cli {

void DraftFlags::add(Arguments& app) {
  app.option("--draft-max", tokens_,
             "Maximum draft tokens per verification (speculative decoding); 0: off")
      .type_name("N")
      .group("Speed")
      .whole_number(0, kMostDrafted)
      .show_default();
  app.option("--draft-model", model_,
             "Smaller model with the same vocabulary that drafts too (also -md) [none]")
      .type_name("MODEL")
      .models()
      .group("Speed");
}

void DraftFlags::set(SchedulerOptions& options, const ModelArguments& like) const {
  options.draft_tokens = static_cast<int32_t>(tokens_);
  if (model_.empty()) return;
  if (tokens_ == 0) throw Misuse("--draft-model", "excludes --draft-max 0");
  like.shared_executor();  // made before the copy, so that both models share it
  ModelArguments arguments = like;
  arguments.path = model_;
  Progress bar("loading the draft model");
  LoadOptions load = arguments.load_options(bar, {});
  load.clip_context = true;
  options.draft_model = std::make_shared<Model>(model_, load);
}

}  // namespace veery::cli
