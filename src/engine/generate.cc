#include "engine/generate.h"

#include <algorithm>

#include "sample/parameters.h"

namespace veery {

SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults) {
  SamplerOptions options = defaults;
  for (const SamplingParameter& parameter : sampling_parameters()) {
    const std::string key(parameter.file_key);
    if (key.empty()) continue;
    if (parameter.real != nullptr) {
      if (const auto found = metadata.number(key)) parameter.set(options, *found);
    } else if (const auto found = metadata.integer(key)) {
      parameter.set(options,
                    static_cast<double>(std::clamp<int64_t>(*found, INT32_MIN, INT32_MAX)));
    }
  }
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
