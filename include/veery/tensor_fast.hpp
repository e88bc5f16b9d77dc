// tensor_fast.hpp: functions of models on tensors, each with kernels of its own for the result and
// for its gradient. docs/tensor.md#fast-functions is a guide.
//
// f16 and bf16 are computed in f32 and each result is rounded once. Operands of several types are
// promoted first. Operands may be views: they are not copied. All functions have derivatives in
// reverse and forward mode, of any order. Kernels compute the results and the gradients of vjp();
// forward mode and higher derivatives compose functions of tensor.hpp.
#ifndef VEERY_TENSOR_FAST_HPP
#define VEERY_TENSOR_FAST_HPP

#include <cstdint>
#include <optional>
#include <veery/tensor.hpp>

namespace veery::tensor::fast {

/// x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich, 2019,
/// https://arxiv.org/abs/1910.07467). weight: [x.dim(-1)], absent: 1. Throws kInput if a type is no
/// float, a shape does not fit, or eps is negative or not finite.
Tensor rms_norm(const Tensor& x, const std::optional<Tensor>& weight = {}, double eps = 1e-5);

/// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis (Ba et al., 2016,
/// https://arxiv.org/abs/1607.06450), with the variance over all elements (correction 0). weight
/// and bias: [x.dim(-1)], absent: 1 and 0. Throws as rms_norm().
Tensor layer_norm(const Tensor& x, const std::optional<Tensor>& weight = {},
                  const std::optional<Tensor>& bias = {}, double eps = 1e-5);

struct AttentionOptions {
  std::optional<double> scale = {};  ///< of the scores; absent: 1 / sqrt(D)
  /// Query i sees keys up to i + Lk - Lq: the last query sees all.
  bool causal = false;
  /// Query i sees keys at a distance of less than `window` from i + Lk - Lq; with `causal`, the
  /// last `window` keys up to that one.
  std::optional<int64_t> window = {};
  /// Broadcast to [B, Hq, Lq, Lk]: bool, true for keys that are seen, or floats that are added to
  /// the scores. -infinity hides a key.
  std::optional<Tensor> mask = {};
  /// [Hq]: for each head the score of a further key whose value is 0.
  std::optional<Tensor> sinks = {};
};
/// softmax(scale q k^T + mask) v, of shape [B, Hq, Lq, Dv], for queries [B, Hq, Lq, D], keys
/// [B, Hkv, Lk, D] and values [B, Hkv, Lk, Dv]. Each head of keys serves Hq / Hkv consecutive heads
/// of queries. A query that sees no key gives zeros and has zero gradients. Keys and values that
/// are hidden must be finite, because they are multiplied by 0. Neither the result nor its
/// gradients keep a matrix of scores in memory (FlashAttention, Dao et al., 2022,
/// https://arxiv.org/abs/2205.14135), except that the gradient of a mask has the shape to which the
/// mask is broadcast. Forward mode and higher derivatives do keep such matrices. Throws kInput if
/// types are no floats, shapes do not fit, or an option is out of its range.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

enum class Reduction : uint8_t { kNone, kMean, kSum };

struct CrossEntropyOptions {
  std::optional<int64_t> ignore_index =
      {};                              ///< tokens with this target have no loss and no gradient
  std::optional<Tensor> weights = {};  ///< floats, broadcast to the shape of the targets
  /// From 0 to 1: this share of the target is spread evenly over all classes.
  double label_smoothing = 0;
  /// kMean divides by the sum of the weights of tokens that are not ignored, 1 each if there are no
  /// weights; if the sum is 0, the result is 0.
  Reduction reduction = Reduction::kMean;
};
/// The cross entropy of softmax(logits) with classes `targets`: weight * (lse - logit of the
/// target), lse = ln(sum(e^logits)). logits: [.., classes]; targets: [..], integers. eval() throws
/// kInput for targets outside of the classes that are not ignored. Throws kInput if types or shapes
/// do not fit, or an option is out of its range.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});

}  // namespace veery::tensor::fast

#endif  // VEERY_TENSOR_FAST_HPP
