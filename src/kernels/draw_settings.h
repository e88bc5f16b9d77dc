// draw_settings.h: how tokens are drawn: what the sampler and kernels of GPUs have in common.
#pragma once
#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

namespace veery {

/// Which tokens are drawn from, and how: of SamplerOptions what a kernel can do.
struct DrawSettings {
  float temperature;  ///< 0: the most probable token
  float top_p;        ///< 1: off
  float log_min_p;    ///< minus infinity: off
  int32_t top_k;      ///< 0 or less: off
};

/// What is added to the logit of a token.
struct TokenBias {
  int32_t id = 0;
  float value = 0;
};

/// What logits of recent tokens lose.
struct Penalties {
  float repeat, frequency, presence;
};

}  // namespace veery
