// attend_block_mma.h: the scores and weighted values of attend_block-inl.h by tensor cores, if
// Element::kMma. Up to kMaxHeads queries are the rows of mma_m16n8k16_bf16(). attend_prefill_mma.h
// accumulates in the same order.
#pragma once

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// The tensor core variant of score() and add_values() for one KV block. The columns of a product
/// are positions or dimensions: the even ones of 16 consecutive columns form one product, the odd
/// ones another.
template <typename Attn>
class BlockMma {
 public:
  VEERY_GPU BlockMma(const Attn& attn, int64_t block)
      : attn_(attn),
        a_(*attn.a_),
        block_(block),
        low_(static_cast<int>(attn.first_ > begin() ? attn.first_ - begin() : 0)),
        high_(static_cast<int>(attn.position_ - begin() < kKvBlock - 1 ? attn.position_ - begin()
                                                                       : kKvBlock - 1)) {}

  /// Computes scores. A warp processes 16 positions at a time.
  VEERY_GPU void score() const {
    const int g = lane() / 4, t = lane() % 4;
    for (int first = 16 * warp(); first < kKvBlock; first += 16 * warps()) {
      float c[2][4] = {};
      if (first <= high_ && first + 15 >= low_) {
        const auto* keys = attn_.keys_at(block_, first) + t * 32 + 2 * g;
        VEERY_UNROLL(8)
        for (int k = 0; k < a_.key_dim; k += 16) {
          uint32_t rows[4];
          VEERY_UNROLL(4)
          for (int i = 0; i < 4; ++i) rows[i] = load<uint32_t>(keys + (k + i / 2 * 8 + i % 2) * 16);
          multiply(attn_.queries_, a_.key_dim, k, rows, c);
        }
      }
      if (g >= attn_.heads_) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int at = first + 4 * t + i;
        float x = c[i % 2][i / 2];
        if (a_.softcap > 0) x = apply_softcap(x, a_.softcap);
        attn_.weights_[g * kKvBlock + at] = at >= low_ && at <= high_ ? x : kNoScore;
      }
    }
  }
  /// Accumulates the weighted values. A warp processes 16 dimensions at a time. Groups of 16
  /// positions that the row does not see are skipped.
  template <typename States>
  VEERY_GPU void add_values(States& states) const {
    const int g = lane() / 4, t = lane() % 4;
    float* sums = attn_.stats_ + kStatFloats;  // [query][dimension]
    for (int dim = 16 * warp(); dim < a_.value_dim; dim += 16 * warps()) {
      const auto* values = attn_.values_at(block_) + dim + 2 * g;
      float c[2][4] = {};
      VEERY_UNROLL(8)
      for (int first = 0; first < kKvBlock; first += 16) {
        if (first > high_ || first + 15 < low_) continue;
        uint32_t rows[4];
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const int p = first + 2 * t + i / 2 * 8 + i % 2;
          rows[i] = p >= low_ && p <= high_ ? load<uint32_t>(values + p * a_.value_dim) : 0;
        }
        multiply(attn_.weights_, kKvBlock, first, rows, c);
      }
      if (g >= attn_.heads_) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) sums[g * a_.value_dim + dim + 4 * t + i] = c[i % 2][i / 2];
    }
    sync_block();
    VEERY_UNROLL(4)
    for (int q = 0; q < Attn::kThreadQueries; ++q) {
      const int h = attn_.head_of(q);
      states[q].clear();
      if (h >= attn_.heads_) continue;
      states[q].max_score = attn_.stats_[2 * h], states[q].sum = attn_.stats_[2 * h + 1];
      VEERY_UNROLL(2)
      for (int i = 0; i < Attn::kValues; ++i)
        if (attn_.dim(i) < a_.value_dim)
          states[q].values[i] = sums[h * a_.value_dim + attn_.dim(i)];
    }
  }

 private:
  static constexpr int kStatFloats = 16;  ///< floats in front of the sums

  VEERY_GPU int64_t begin() const { return block_ * kKvBlock; }
  static VEERY_GPU float apply_softcap(float x, float apply_softcap) {
    using E = Element<BF16Mma>;
    return E::multiply(apply_softcap, tanh_f32(E::divide(x, apply_softcap)));
  }
  /// Packs two numbers that are bf16 already.
  static VEERY_GPU uint32_t pair_of(Two<float> x) {
    return static_cast<uint32_t>(float_to_bits(x.x)) >> 16 |
           (static_cast<uint32_t>(float_to_bits(x.y)) & 0xffff0000U);
  }
  /// c[0] and c[1] += the products of elements [first, first + 16) of each query with the even and
  /// the odd columns of `rows`. Queries are `stride` apart. In lane 4 g + t the words of `rows` are
  /// elements 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of columns 2 g (lower half) and 2 g + 1.
  VEERY_GPU void multiply(const float* queries, int stride, int first, const uint32_t (&rows)[4],
                          float (&c)[2][4]) const {
    uint32_t own[4] = {0, 0, 0, 0};
    if (lane() / 4 < attn_.heads_) {
      const float* from = queries + lane() / 4 * stride + first + lane() % 4 * 2;
      own[0] = pair_of(load_shared<Two<float>>(from));
      own[2] = pair_of(load_shared<Two<float>>(from + 8));
    }
    const uint32_t even[2] = {(rows[0] & 0xffffU) | rows[1] << 16,
                              (rows[2] & 0xffffU) | rows[3] << 16};
    const uint32_t odd[2] = {rows[0] >> 16 | (rows[1] & 0xffff0000U),
                             rows[2] >> 16 | (rows[3] & 0xffff0000U)};
    mma_m16n8k16_bf16(c[0], own, even[0], even[1]);
    mma_m16n8k16_bf16(c[1], own, odd[0], odd[1]);
  }

  const Attn& attn_;
  const AttendParams& a_;
  int64_t block_;
  int low_, high_;  ///< the visible range of the block
};

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

// bf16 caches by tensor cores, after products of bf16: Recorder::mma_attention.
#define VEERY_GPU_ATTEND_BLOCK_MMA_KERNELS(X)                                                \
  X(kCuda, attend_split_mma, AttendParams, 128, 0,                                           \
    key::attend(AttendPart::kSplit, CacheType::kBF16Mma, false), (attend_split<BF16Mma, 1>)) \
  X(kCuda, attend_rows_mma, AttendParams, 128, 0,                                            \
    key::attend(AttendPart::kRows, CacheType::kBF16Mma, false), (attend_rows<BF16Mma, 1>))
