// sampling_flags.h: the flags by which tokens are chosen.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/parts/arguments.h"
#include "engine/model.h"
#include "sample/sampler.h"
#include "schedule/backend/text_backend.h"

namespace veery::cli {

/// What is not given is as the model's makers recommend.
class SamplingFlags {
 public:
  void add(Arguments& app);
  /// Throws Misuse naming a flag whose value does not fit the model.
  SamplerOptions options(const Model& model) const;
  /// What backends other than veery's own know of them, and the usual values of the others.
  BackendOptions backend_options() const;

 private:
  void add_penalties(Arguments& app);
  void add_more(Arguments& app);

  std::optional<float> temperature_, top_p_, min_p_, typical_p_, top_n_sigma_;
  std::optional<float> xtc_probability_, xtc_threshold_, dynatemp_range_, dynatemp_exponent_;
  std::optional<float> mirostat_tau_, mirostat_eta_;
  std::optional<float> repeat_penalty_, presence_penalty_, frequency_penalty_;
  std::optional<float> dry_multiplier_, dry_base_;
  std::optional<int32_t> top_k_, repeat_last_n_, dry_allowed_length_, dry_last_n_, mirostat_;
  std::vector<std::string> biases_, dry_breakers_;
  int64_t seed_ = -1;
};

}  // namespace veery::cli
