// draw_settings.h: settings of sampling, shared by the sampler and GPU kernels.
#pragma once
#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

namespace veery {

/// The part of SamplerOptions that kernels implement.
struct DrawSettings {
  float temperature;  ///< 0: the most probable token
  float top_p;        ///< 1: off
  float log_min_p;    ///< minus infinity: off
  int32_t top_k;      ///< 0 or less: off
};

/// A value that is added to the logit of a token.
struct TokenBias {
  int32_t id = 0;
  float value = 0;
};

/// Penalties on the logits of recent tokens (penalized() in draw.h).
struct Penalties {
  float repeat, frequency, presence;
};

}  // namespace veery
