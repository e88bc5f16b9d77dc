// tensor_rope.h: rotary position embeddings of data in memory, forward and backward (docs/rope.md).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ops/position.h"
#include "kernels/tensor/element_type.h"

namespace veery {

/// The pairs of dimensions, and the axis (t, h, w, e) whose position turns each pair. The values
/// are those of ggml's rope types.
enum class RopeMode : int32_t {
  kInterleaved = 0,  ///< (2p, 2p + 1); axis t
  kNeox = 2,         ///< (p, p + distance); axis t
  kMrope = 8,        ///< kNeox; a run of pairs for each axis
  kVision = 24,      ///< kMrope; the frequencies start again in each run
  kImrope = 40       ///< kNeox; the axes alternate
};
/// The distance between the dimensions of a pair, except in kInterleaved.
enum class RopePairing : int32_t { kRopeHalf, kHeadHalf };

struct RopeParameters {
  int64_t head_dim = 0, rope_dim = 0;
  RopeMode mode = RopeMode::kNeox;
  RopePairing pairing = RopePairing::kRopeHalf;
  std::array<uint32_t, 4> sections{};  ///< pairs of each axis; their sum is the period
  AnglesAttr angles;                   ///< `dims` and `temperature` are not read
  std::vector<float> divisors;         ///< of the frequencies, one for each pair; empty: none
};
/// Returns what is wrong with the first parameter that is not valid; "" if all are.
std::string invalid_rope(const RopeParameters& parameters);

/// The pairs of a head: (p * step, p * step + distance).
struct RopeTable {
  /// Throws kInput if the parameters are not valid.
  explicit RopeTable(const RopeParameters& parameters);
  int64_t pairs() const { return static_cast<int64_t>(frequency.size()); }

  std::vector<double> frequency;  ///< radians per position
  std::vector<uint8_t> axis;
  double magnitude = 1;  ///< of cos and sin
  int64_t step = 1, distance = 0;

  bool operator==(const RopeTable&) const = default;
};

/// Heads in memory, with strides in elements; the dimensions of a head are contiguous.
struct RopeHeads {
  std::byte* data = nullptr;
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
};
/// Rotates each head by the angles of its token, which are position * frequency. `back` negates
/// them, which gives the product with the transposed Jacobian. Angles, cos, sin and rotation are
/// computed in f64 and rounded once to f32 or f64, then to f16 or bf16.
struct RopeProblem {
  ElementType type = ElementType::kF32;  ///< a float
  int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;
  RopeHeads in, out;                          ///< `out` is `in`, or does not overlap it
  std::array<const int32_t*, 4> positions{};  ///< of each axis, [batch * tokens]
  bool back = false;
};
/// The reference kernel.
void reference_rope(const RopeProblem& problem, const RopeTable& table);

}  // namespace veery
