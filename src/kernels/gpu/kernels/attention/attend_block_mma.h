// attend_by_cores.h: scores and weighted values of attend.h by tensor cores, where Element::kCores:
// queries are the rows of multiply_bf16(), of which up to kMostHeads are there. The same chains are
// those of attend_core_tiles.h.
#pragma once
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// Of an Attention and a block of positions. Columns of a product may be any positions, or
/// dimensions: those of 16 neighbours that are even, then those that are odd, are two products.
template <typename Of>
class CoreSteps {
 public:
  VEERY_GPU CoreSteps(const Of& of, int64_t block)
      : of_(of),
        a_(*of.a_),
        block_(block),
        low_(static_cast<int>(of.first_ > begin() ? of.first_ - begin() : 0)),
        high_(static_cast<int>(of.position_ - begin() < kBlock - 1 ? of.position_ - begin()
                                                                   : kBlock - 1)) {}

  /// A warp 16 positions at a time.
  VEERY_GPU void score() const {
    const int g = lane() / 4, t = lane() % 4;
    for (int first = 16 * warp(); first < kBlock; first += 16 * warps()) {
      float c[2][4] = {};
      if (first <= high_ && first + 15 >= low_) {
        const auto* keys = of_.key_of(block_, first) + t * 32 + 2 * g;
        VEERY_UNROLL(8)
        for (int k = 0; k < a_.key_dim; k += 16) {
          uint32_t rows[4];
          VEERY_UNROLL(4)
          for (int i = 0; i < 4; ++i) rows[i] = load<uint32_t>(keys + (k + i / 2 * 8 + i % 2) * 16);
          multiply(of_.queries_, a_.key_dim, k, rows, c);
        }
      }
      if (g >= of_.heads_) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int at = first + 4 * t + i;
        float x = c[i % 2][i / 2];
        if (a_.softcap > 0) x = capped(x, a_.softcap);
        of_.weights_[g * kBlock + at] = at >= low_ && at <= high_ ? x : kNothing;
      }
    }
  }
  /// A warp 16 dimensions at a time. Where none of 16 positions is seen nothing is added.
  template <typename States>
  VEERY_GPU void add_values(States& states) const {
    const int g = lane() / 4, t = lane() % 4;
    float* sums = of_.found_ + kFound;  // [query][dimension]
    for (int dim = 16 * warp(); dim < a_.value_dim; dim += 16 * warps()) {
      const auto* values = of_.values_of(block_) + dim + 2 * g;
      float c[2][4] = {};
      VEERY_UNROLL(8)
      for (int first = 0; first < kBlock; first += 16) {
        if (first > high_ || first + 15 < low_) continue;
        uint32_t rows[4];
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const int p = first + 2 * t + i / 2 * 8 + i % 2;
          rows[i] = p >= low_ && p <= high_ ? load<uint32_t>(values + p * a_.value_dim) : 0;
        }
        multiply(of_.weights_, kBlock, first, rows, c);
      }
      if (g >= of_.heads_) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) sums[g * a_.value_dim + dim + 4 * t + i] = c[i % 2][i / 2];
    }
    sync_block();
    VEERY_UNROLL(4)
    for (int q = 0; q < Of::kOwn; ++q) {
      const int h = of_.head_of(q);
      states[q].clear();
      if (h >= of_.heads_) continue;
      states[q].most = of_.found_[2 * h], states[q].sum = of_.found_[2 * h + 1];
      VEERY_UNROLL(2)
      for (int i = 0; i < Of::kValues; ++i)
        if (of_.dim(i) < a_.value_dim) states[q].values[i] = sums[h * a_.value_dim + of_.dim(i)];
    }
  }

 private:
  static constexpr int kFound = 16;  ///< floats in front of the sums

  VEERY_GPU int64_t begin() const { return block_ * kBlock; }
  static VEERY_GPU float capped(float x, float cap) {
    using E = Element<BF16Cores>;
    return E::multiply(cap, hyperbolic_tangent(E::divide(x, cap)));
  }
  /// Of two numbers that are bf16.
  static VEERY_GPU uint32_t pair_of(Two<float> x) {
    return static_cast<uint32_t>(bits_of(x.x)) >> 16 |
           (static_cast<uint32_t>(bits_of(x.y)) & 0xffff0000U);
  }
  /// Adds 16 elements of each query, `stride` apart, from `first` on, times `rows`: those of lane 4
  /// g
  /// + t are 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, columns 2 g and 2 g + 1.
  VEERY_GPU void multiply(const float* queries, int stride, int first, const uint32_t (&rows)[4],
                          float (&c)[2][4]) const {
    uint32_t own[4] = {0, 0, 0, 0};
    if (lane() / 4 < of_.heads_) {
      const float* from = queries + lane() / 4 * stride + first + lane() % 4 * 2;
      own[0] = pair_of(load_shared<Two<float>>(from));
      own[2] = pair_of(load_shared<Two<float>>(from + 8));
    }
    const uint32_t even[2] = {(rows[0] & 0xffffU) | rows[1] << 16,
                              (rows[2] & 0xffffU) | rows[3] << 16};
    const uint32_t odd[2] = {rows[0] >> 16 | (rows[1] & 0xffff0000U),
                             rows[2] >> 16 | (rows[3] & 0xffff0000U)};
    multiply_bf16(c[0], own, even[0], even[1]);
    multiply_bf16(c[1], own, odd[0], odd[1]);
  }

  const Of& of_;
  const AttendArguments& a_;
  int64_t block_;
  int low_, high_;  ///< what is seen of the block
};

}  // namespace veery::gpu
