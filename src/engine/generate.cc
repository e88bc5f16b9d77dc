#include "engine/generate.h"

namespace veery {

SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults) {
  SamplerOptions options = defaults;
  const auto set = [&](const char* key, float& value) {
    if (const auto found = metadata.number(key)) value = static_cast<float>(*found);
  };
  const auto set_count = [&](const char* key, int32_t& value) {
    if (const auto found = metadata.integer(key)) value = static_cast<int32_t>(*found);
  };
  set("general.sampling.temp", options.temperature);
  set("general.sampling.top_p", options.top_p);
  set("general.sampling.min_p", options.min_p);
  set_count("general.sampling.top_k", options.top_k);
  set("general.sampling.penalty_repeat", options.repeat_penalty);
  set_count("general.sampling.penalty_last_n", options.repeat_last_n);
  return options;
}

double Generation::prompt_rate() const {
  return prompt_seconds > 0 ? static_cast<double>(prompt_tokens) / prompt_seconds : 0;
}

double Generation::decode_rate() const {
  if (ids.size() < 2 || decode_seconds <= 0) return 0;
  return static_cast<double>(ids.size() - 1) / decode_seconds;
}

}  // namespace veery
