// feed_forward.h: hyperparameters of feed-forward layers and of experts.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/ops/elementwise.h"
#include "graph/ops/experts.h"

namespace veery {

/// Learned parameters of the xIELU activation of a layer as stored in files. ActivateAttr takes
/// softplus(alpha_p) and beta + softplus(alpha_n).
struct XieluNumbers {
  float alpha_p = 0, alpha_n = 0, beta = 0.5F, eps = -1e-6F;
  bool operator==(const XieluNumbers&) const = default;
};
/// The storage of a parameter: in GGUF a key with one value per layer, in model folders one tensor
/// per layer, given by its internal name.
struct XieluField {
  const char* gguf_key;
  const char* tensor;
  float XieluNumbers::*member;
};
inline constexpr XieluField kXieluFields[] = {
    {"xielu.alpha_p", "xielu_alpha_p.weight", &XieluNumbers::alpha_p},
    {"xielu.alpha_n", "xielu_alpha_n.weight", &XieluNumbers::alpha_n},
    {"xielu.beta", "xielu_beta.weight", &XieluNumbers::beta},
    {"xielu.eps", "xielu_eps.weight", &XieluNumbers::eps}};

/// Dense feed-forward layers.
struct FeedForwardConfig {
  int64_t hidden = 0;            ///< width
  int64_t shared_kv_hidden = 0;  ///< width in layers that share keys and values; 0: `hidden`
  bool gated = true;             ///< gated, such as SwiGLU
  Activation activation = Activation::kSilu;
  std::vector<XieluNumbers> xielu;  ///< kXielu: by layer
  /// By layer: consists only of a feed-forward part, and other layers only of a mixer. Empty: all
  /// layers have both parts.
  std::vector<bool> alone;
};

/// Mixture-of-experts feed-forward layers.
struct ExpertConfig {
  int32_t count = 0;          ///< number of routed experts; 0: none
  int64_t hidden = 0;         ///< width of one routed expert
  int64_t latent = 0;         ///< input width of experts (LatentMoE); 0: dim
  int64_t shared_hidden = 0;  ///< width of the shared expert; 0: none
  float scale = 1;            ///< factor on the sum of shared and routed experts
  RouteAttr route;
  MoeAttr moe;
};

}  // namespace veery
