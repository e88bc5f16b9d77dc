// gemv_quantize_x-inl.h: quantises the token row of a GEMV in shared memory. A lane has 8
// neighbouring columns; the bits are those of quantize_x.h.
#pragma once
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

/// Eight columns.
using Eight = float[8];

/// `at` is a multiple of 16 bytes.
VEERY_GPU void load_eight(const float* at, Eight& v) {
  const auto a = load<Four<float>>(at), b = load<Four<float>>(at + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// x + kRoundingMagic has round_to_int(x) in its lower bits if |x| < 2^22, so that no conversion is
// needed.
inline constexpr float kRoundingMagic = 12582912.0F;
/// Quantises eight columns to bytes and returns the sum of the codes. v becomes the residual;
/// `step` is the scale.
VEERY_GPU int32_t quantize_8(Eight& v, float inverse, float step, uint32_t (&codes)[2]) {
  int32_t sum = 0;
  VEERY_UNROLL(2)
  for (int h = 0; h < 2; ++h) {
    uint32_t bits[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float shifted = v[4 * h + i] * inverse + kRoundingMagic;
      bits[i] = static_cast<uint32_t>(float_to_bits(shifted));
      v[4 * h + i] = fma(-step, shifted - kRoundingMagic, v[4 * h + i]);
    }
    codes[h] = pack_low_bytes(bits);
    sum = add_bytes_s8(codes[h], sum);
  }
  return sum;
}
/// Offset of the lane's first four codes in 256 columns; the other four are 8 bytes later.
VEERY_GPU int eight_offset() { return lane() / 4 * 32 + lane() % 2 * 16 + lane() % 4 / 2 * 4; }
VEERY_GPU void store_8(int8_t* codes, const uint32_t (&of)[2]) {
  *reinterpret_cast<uint32_t*>(codes + eight_offset()) = of[0];
  *reinterpret_cast<uint32_t*>(codes + eight_offset() + 8) = of[1];
}
VEERY_GPU float max_abs_8(const Eight& v) {
  float max_abs = magnitude(v[0]);
  VEERY_UNROLL(8)
  for (int i = 1; i < 8; ++i) max_abs = max_f32(max_abs, magnitude(v[i]));
  return max_abs;
}
VEERY_GPU float max_over_lanes(float x, int first, int last) {
  VEERY_UNROLL(5)
  for (int mask = first; mask <= last; mask *= 2) x = max_f32(x, shuffle_xor(x, mask));
  return x;
}

/// A lane's columns of two groups of 256 columns, which are kApart groups apart. The computations
/// of the two are independent, so that they overlap.
using Groups = Eight[2];

/// Quantises eight blocks of 32 per group, up to `blocks`, and stores their largest magnitudes.
template <int kApart>
VEERY_GPU void quantize_32(const ActivationRow& to, int group, int blocks, Groups& v,
                           float* max_abs_of) {
  float max_abs[2];
  QuantScale of[2];
  uint32_t codes[2][2];
  int32_t sum[2];
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) max_abs[k] = max_over_lanes(max_abs_8(v[k]), 1, 2);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) of[k] = quant_scale(max_abs[k]);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) sum[k] = quantize_8(v[k], of[k].inverse, of[k].scale, codes[k]);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) {
    sum[k] += shuffle_xor(sum[k], 1);
    sum[k] += shuffle_xor(sum[k], 2);
  }
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) {
    const int b = 8 * (group + k * kApart), own = b + lane() / 4;
    if (own >= blocks) continue;
    store_8(to.codes() + 32 * b, codes[k]);
    if (lane() % 4 != 0) continue;
    to.floats(to.layout.scale)[own] = of[k].scale;
    to.ints(to.layout.sum)[own] = sum[k];
    to.floats(to.layout.moment)[own] = of[k].scale * static_cast<float>(sum[k]);
    max_abs_of[own] = max_abs[k];
  }
}

/// Quantises one block of 256 per group, up to `groups`.
template <int kApart>
VEERY_GPU void quantize_256(const ActivationRow& to, int group, int groups, Groups& v) {
  float scale[2];
  uint32_t codes[2][2];
  int32_t sum[2], shift[2];
  float max_abs[2], all[2];
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) max_abs[k] = max_over_lanes(max_abs_8(v[k]), 1, 2);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) all[k] = max_over_lanes(max_abs[k], 4, 16);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) {
    const QuantScale whole = quant_scale(all[k]);
    scale[k] = whole.scale / 8;
    // How often the part can be doubled without exceeding the block's largest magnitude.
    const float twice = 2 * max_abs[k], four = 2 * twice, eight = 2 * four;
    const int doubled =
        (twice <= all[k] ? 1 : 0) + (four <= all[k] ? 1 : 0) + (eight <= all[k] ? 1 : 0);
    shift[k] = 3 - doubled;
    sum[k] = quantize_8(v[k], whole.inverse * static_cast<float>(1 << doubled),
                        scale[k] * static_cast<float>(1 << shift[k]), codes[k]);
  }
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) sum[k] += shuffle_xor(sum[k], 1);
  VEERY_UNROLL(2)
  for (int k = 0; k < 2; ++k) {
    const int b = group + k * kApart, part = lane() / 4;
    if (b >= groups) continue;
    store_8(to.codes() + 256 * b, codes[k]);
    if (lane() % 2 == 0)
      to.ints(to.layout.sum)[16 * b + 2 * part + lane() % 4 / 2] = sum[k] * (1 << shift[k]);
    if (lane() % 4 == 0) to.ints(to.layout.shift)[8 * b + part] = shift[k];
    if (lane() == 0) to.floats(to.layout.scale)[b] = scale[k];
  }
}

/// Rounds 256 columns to bf16; `cols` is a multiple of 16.
VEERY_GPU void round_bf16(const ActivationRow& to, int b, int cols, const Eight& v) {
  const int k = 256 * b + 8 * lane();
  if (k >= cols) return;
  uint32_t pairs[4];
  VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i)
    pairs[i] = float_to_bf16(v[2 * i]) | uint32_t{float_to_bf16(v[2 * i + 1])} << 16;
  *reinterpret_cast<Four<uint32_t>*>(to.at + 2 * k) = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

/// inverse_rms() of a row in shared memory whose length is a multiple of 1,024, with the same order
/// of sums: a lane has two neighbours, and loads run 16 steps ahead.
VEERY_GPU float inverse_rms_shared(const float* x, int n, float eps) {
  constexpr int kInFlight = 16;
  Two<float> v[kInFlight], sum = {0, 0};
  const float* own = x + 2 * lane();
  const auto add_step = [&](const Two<float>& of) {
    sum.x = fma(of.x, of.x, sum.x), sum.y = fma(of.y, of.y, sum.y);
  };
  VEERY_UNROLL(16)
  for (int j = 0; j < kInFlight; ++j) v[j] = load<Two<float>>(own + 64 * j);
  VEERY_UNROLL(1)
  for (int left = n - 1024; left > 0; left -= 1024) {
    own += 1024;
    VEERY_UNROLL(16)
    for (int j = 0; j < kInFlight; ++j) {
      add_step(v[j]);
      v[j] = load<Two<float>>(own + 64 * j);
    }
  }
  VEERY_UNROLL(16)
  for (int j = 0; j < kInFlight; ++j) add_step(v[j]);
  // Partial sum c belongs to lane c / 2, so c + 16, + 32, + 8 .. are 8, 16, 4 .. lanes away.
  const auto add_lanes = [&](int mask) {
    sum.x = sum.x + shuffle_xor(sum.x, mask), sum.y = sum.y + shuffle_xor(sum.y, mask);
  };
  add_lanes(8), add_lanes(16), add_lanes(4), add_lanes(2), add_lanes(1);
  const auto size = static_cast<float>(n);
  const float total = sum.x + sum.y;
  // If the length is a power of two, multiplication by its inverse gives the quotient exactly. The
  // bits of the inverse follow from those of the length.
  const float mean =
      (n & (n - 1)) == 0 ? total * bits_to_float(0x7f000000 - float_to_bits(size)) : total / size;
  return 1.0F / square_root(mean + eps);
}

/// The input and the shared memory of RowQuantizer. Addresses are multiples of 16 bytes.
struct RowQuantizerInput {
  const float* x;
  Norm norm;
  int32_t cols;
  ActivationLayout layout;
  uint8_t* act;       ///< of both terms
  float* max_abs_of;  ///< [cols / 32], for kInt8Block32
  float* inverse;     ///< of the norm
  float* staged;      ///< [cols], with a norm

  VEERY_GPU ActivationRow row(int term) const { return {act + term * layout.bytes, layout}; }
};

/// Warps 0 to kWarps - 1 of a block quantise a row, one group of 256 columns each. Loops are not
/// unrolled: code that runs once per launch is fetched from memory, which took a third of a
/// product.
template <ActivationKind kKind, int kTerms, int kWarps>
class RowQuantizer {
 public:
  VEERY_GPU explicit RowQuantizer(const RowQuantizerInput& source)
      : of_(source),
        first_(source.row(0)),
        second_(source.row(1)),
        groups_((source.cols + 255) / 256) {}

  /// Contains barriers of the block; the last one is at the end. The first norm weights are loaded
  /// before `wait` returns, as only the row depends on earlier launches. `arrived` is called by
  /// warps 0 to kWarps - 1 after their part of the row has arrived, so that what it copies does not
  /// delay the row.
  template <typename Wait, typename Arrived>
  VEERY_GPU Row make(const Wait& wait, const Arrived& arrived) {
    if (of_.norm.weight == nullptr) {
      wait();
      if (warp() < kWarps) quantize_plain(arrived);
      sync_block();
      return {of_.x, nullptr, 1};
    }
    Groups weights = {};
    if (warp() < kWarps) load_groups(of_.norm.weight, warp(), weights);
    wait();
    copy_row();
    wait_for_copies<0>();
    if (warp() < kWarps) arrived();
    sync_block();
    if (warp() == 0) {
      const float inverse = of_.cols % 1024 == 0
                                ? inverse_rms_shared(of_.staged, of_.cols, of_.norm.eps)
                                : inverse_rms(of_.staged, of_.cols, of_.norm.eps);
      if (lane() == 0) *of_.inverse = inverse;
    }
    sync_block();
    const float inverse = *of_.inverse;
    if (warp() < kWarps) normalise(inverse, weights);
    sync_block();
    return {of_.x, of_.norm.weight, inverse};
  }

 private:
  static VEERY_GPU int column(int group) { return 256 * group + 8 * lane(); }
  VEERY_GPU void load_groups(const float* at, int group, Groups& v) const {
    VEERY_UNROLL(2)
    for (int k = 0; k < 2; ++k)
      if (column(group + k * kWarps) < of_.cols) load_eight(at + column(group + k * kWarps), v[k]);
  }
  VEERY_GPU void copy_row() const {
    for (int i = 4 * thread(); i < of_.cols; i += 4 * threads())
      copy_async_16(reinterpret_cast<uint8_t*>(of_.staged + i),
                    reinterpret_cast<const uint8_t*>(of_.x + i));
    commit_copies();
  }
  // `weights`: the norm weights of the first groups; those of later groups are loaded ahead.
  VEERY_GPU void normalise(float inverse, Groups& weights) const {
    VEERY_UNROLL(1)
    for (int g = warp(); g < groups_; g += 2 * kWarps) {
      Groups v = {};
      load_groups(of_.staged, g, v);
      VEERY_UNROLL(2)
      for (int k = 0; k < 2; ++k) VEERY_UNROLL(8)
      for (int e = 0; e < 8; ++e) v[k][e] = v[k][e] * inverse * weights[k][e];
      load_groups(of_.norm.weight, g + 2 * kWarps, weights);
      act(g, v);
    }
  }
  // Two groups at a time; loads run four groups ahead.
  template <typename Arrived>
  VEERY_GPU void quantize_plain(const Arrived& arrived) const {
    Groups next = {}, later = {};
    load_groups(of_.x, warp(), next);
    load_groups(of_.x, warp() + 2 * kWarps, later);
    if (warp() >= groups_) arrived();
    VEERY_UNROLL(1)
    for (int g = warp(); g < groups_; g += 2 * kWarps) {
      Groups v;
      copy_groups(v, next), copy_groups(next, later);
      load_groups(of_.x, g + 4 * kWarps, later);
      if (g + 2 * kWarps >= groups_) arrived();
      act(g, v);
    }
  }
  static VEERY_GPU void copy_groups(Groups& to, const Groups& from) {
    VEERY_UNROLL(2)
    for (int k = 0; k < 2; ++k) VEERY_UNROLL(8)
    for (int e = 0; e < 8; ++e) to[k][e] = from[k][e];
  }
  VEERY_GPU void act(int group, Groups& v) const {
    write(first_, group, v);
    if constexpr (kTerms == 2) write(second_, group, v);
  }
  VEERY_GPU void write(const ActivationRow& to, int group, Groups& v) const {
    if constexpr (kKind == ActivationKind::kBF16) {
      round_bf16(to, group, of_.cols, v[0]);
      round_bf16(to, group + kWarps, of_.cols, v[1]);
    } else if constexpr (kKind == ActivationKind::kInt8Block32) {
      quantize_32<kWarps>(to, group, of_.cols / 32, v, of_.max_abs_of);
    } else {
      quantize_256<kWarps>(to, group, groups_, v);
    }
  }

  const RowQuantizerInput& of_;
  ActivationRow first_, second_;
  int groups_;
};

/// One warp finds the outlier blocks of a row and quantises their residuals.
VEERY_GPU void quantize_outliers(const RowQuantizerInput& of, const Row& row) {
  const ActivationRow to = of.row(0);
  find_outliers(of.max_abs_of, of.cols / 32, to.ints(to.layout.outliers));
  sync_warp();
  const int32_t* list = to.ints(to.layout.outliers);
  VEERY_UNROLL(4)
  for (int e = 0; e < list[0]; ++e)
    write_outlier_residual(to, list[1 + e], row.at(32 * list[1 + e] + lane()));
  sync_warp();
}

}  // namespace veery::gpu
