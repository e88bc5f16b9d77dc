// tensor_rope.hpp: differentiable rotary position embeddings (RoPE) of tensors. docs/rope.md
// describes modes, layouts and positions.
#ifndef VEERY_TENSOR_ROPE_HPP
#define VEERY_TENSOR_ROPE_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <vector>
#include <veery/tensor.hpp>

namespace veery::tensor::fast {

/// The pairs of dimensions of a head, and the axis (t, h, w, e) whose position turns each pair.
enum class RopeMode : uint8_t {
  kNeox,         ///< (p, p + distance), turned by t (GPT-NeoX, Llama in transformers)
  kInterleaved,  ///< (2p, 2p + 1), turned by t (GPT-J)
  kMrope,        ///< as kNeox; sections[0] pairs turned by t, then sections[1] by h, ... (Qwen2-VL)
  kImrope,       ///< as kNeox; t, h and w alternate (Qwen3-VL, Qwen3.5)
  kVision        ///< as kMrope; the frequencies start again in each section (vision towers)
};
/// The distance between the two dimensions of a pair, except in kInterleaved. They differ if only
/// a part of a head is rotated.
enum class RopePairing : uint8_t { kRopeHalf, kHeadHalf };
enum class RopeLayout : uint8_t {
  kHeadsFirst,  ///< x is [.., heads, tokens, head_dim], [heads, tokens, ..] or [tokens, ..]
  kTokensFirst  ///< x is [.., tokens, heads, head_dim]
};
/// Frequencies for contexts that are longer than those of the training, as in transformers.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

struct RopeOptions {
  int64_t rope_dim = 0;       ///< rotated dimensions of a head; 0: all. The others stay as they are
  double theta_base = 10000;  ///< pair p turns by theta_base^(-2p / rope_dim) radians per position
  RopeMode mode = RopeMode::kNeox;
  RopePairing pairing = RopePairing::kRopeHalf;
  RopeLayout layout = RopeLayout::kHeadsFirst;
  std::array<uint32_t, 4> sections{};  ///< pairs of t, h, w, e in kMrope, kImrope, kVision
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;                                 ///< of the context
  double original_context = 0;                       ///< kLlama3, kYarn: positions, required
  double beta_fast = 32, beta_slow = 1;              ///< kYarn: turns within original_context
  bool truncate = true;                              ///< kYarn: the ramp has whole pairs as bounds
  double low_freq_factor = 1, high_freq_factor = 4;  ///< kLlama3
  /// Factor of cos and sin; absent: 0.1 ln(factor) + 1 in kYarn if factor > 1, otherwise 1.
  std::optional<double> attention_factor = {};
  /// Divisors of the frequencies, one for each pair; empty: none.
  std::vector<float> frequency_factors = {};
};

/// Returns x with each head rotated by the angles of its token (Su et al., arXiv:2104.09864).
/// Derivatives pass to `x`: vjp is the rotation by the negative angles.
///
/// x: floats, with 2 dimensions or more in kHeadsFirst, 3 or more in kTokensFirst; dimensions
/// before heads and tokens are batches.
///
/// positions: integers [tokens], [batches, tokens] or [batches * tokens], negative ones too. i64
/// and u32 are reduced to i32 modulo 2^32. kMrope, kImrope and kVision take one more dimension in
/// front, of 4 axes, or of 3, where e is t; without it, as [tokens], all axes are equal.
///
/// Throws kInput for other types and shapes, and for options that docs/rope.md does not allow.
Tensor rope(const Tensor& x, const Tensor& positions, const RopeOptions& options = {});
/// The same with positions offset, offset + 1, ... on all axes. Throws kInput if one is no i32.
Tensor rope(const Tensor& x, int64_t offset = 0, const RopeOptions& options = {});

}  // namespace veery::tensor::fast

#endif  // VEERY_TENSOR_ROPE_HPP
