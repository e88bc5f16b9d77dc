// row_form.h: one row of activations in its form, in the memory of a block of threads that makes a
// product of it: with the bits of form.h, a lane having 8 neighbours.
#pragma once
#include "kernels/gpu/functions/linear/form.h"

namespace veery::gpu {

/// Eight columns.
using Eight = float[8];

/// From a multiple of 16 bytes on.
VEERY_GPU void load_eight(const float* at, Eight& v) {
  const auto a = load<Four<float>>(at), b = load<Four<float>>(at + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// Whole numbers of magnitude below 2^22 in the lower bits of a float, so that no conversion is
// wanted: round_to_int() of what is below it.
inline constexpr float kRounder = 12582912.0F;
/// Codes of eight columns, as bytes; v becomes what they leave over of steps of `step`. Their sum.
VEERY_GPU int32_t code_eight(Eight& v, float inverse, float step, uint32_t (&codes)[2]) {
  int32_t sum = 0;
  VEERY_UNROLL(2)
  for (int h = 0; h < 2; ++h) {
    uint32_t bits[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float shifted = v[4 * h + i] * inverse + kRounder;
      bits[i] = static_cast<uint32_t>(bits_of(shifted));
      v[4 * h + i] = fma(-step, shifted - kRounder, v[4 * h + i]);
    }
    codes[h] = lowest_bytes(bits);
    sum = add_signed_bytes(codes[h], sum);
  }
  return sum;
}
/// Where the lane's eight columns of 256 go in the codes of a row; the second four are 8 bytes on.
VEERY_GPU int eight_place() { return lane() / 4 * 32 + lane() % 2 * 16 + lane() % 4 / 2 * 4; }
VEERY_GPU void put_eight(int8_t* codes, const uint32_t (&of)[2]) {
  *reinterpret_cast<uint32_t*>(codes + eight_place()) = of[0];
  *reinterpret_cast<uint32_t*>(codes + eight_place() + 8) = of[1];
}
VEERY_GPU float largest_of_eight(const Eight& v) {
  float most = magnitude(v[0]);
  VEERY_UNROLL(8)
  for (int i = 1; i < 8; ++i) most = largest(most, magnitude(v[i]));
  return most;
}
VEERY_GPU float largest_over(float x, int first, int last) {
  VEERY_UNROLL(5)
  for (int mask = first; mask <= last; mask *= 2) x = largest(x, shuffle_xor(x, mask));
  return x;
}

/// Eight blocks of 32 from block b on, up to `blocks`; `largest_of`: their largest magnitudes.
VEERY_GPU void form_per32(const FormRow& to, int b, int blocks, Eight& v, float* largest_of) {
  const float most = largest_over(largest_of_eight(v), 1, 2);
  const Scale of = scale_for(most);
  uint32_t codes[2];
  int32_t sum = code_eight(v, of.inverse, of.scale, codes);
  sum += shuffle_xor(sum, 1);
  sum += shuffle_xor(sum, 2);
  const int own = b + lane() / 4;
  if (own >= blocks) return;
  put_eight(to.codes() + 32 * b, codes);
  if (lane() % 4 != 0) return;
  to.floats(to.places.scale)[own] = of.scale;
  to.ints(to.places.sum)[own] = sum;
  to.floats(to.places.moment)[own] = of.scale * static_cast<float>(sum);
  largest_of[own] = most;
}

/// A block of 256.
VEERY_GPU void form_per256(const FormRow& to, int b, Eight& v) {
  const float most = largest_over(largest_of_eight(v), 1, 2);
  const float all = largest_over(most, 4, 16);
  const Scale whole = scale_for(all);
  const float scale = whole.scale / 8;
  int shift = 3;
  float inverse = whole.inverse;
  VEERY_UNROLL(3)
  for (float x = 2 * most; shift > 0 && x <= all; x *= 2, --shift) inverse *= 2;
  uint32_t codes[2];
  int32_t sum = code_eight(v, inverse, scale * static_cast<float>(1 << shift), codes);
  sum += shuffle_xor(sum, 1);
  put_eight(to.codes() + 256 * b, codes);
  const int part = lane() / 4;
  if (lane() % 2 == 0)
    to.ints(to.places.sum)[16 * b + 2 * part + lane() % 4 / 2] = sum * (1 << shift);
  if (lane() % 4 == 0) to.ints(to.places.shift)[8 * b + part] = shift;
  if (lane() == 0) to.floats(to.places.scale)[b] = scale;
}

/// 256 columns as bf16, of a row that has `cols` of them, a multiple of 16.
VEERY_GPU void form_bf16(const FormRow& to, int b, int cols, const Eight& v) {
  const int k = 256 * b + 8 * lane();
  if (k >= cols) return;
  uint32_t pairs[4];
  VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i)
    pairs[i] = float_to_bf16(v[2 * i]) | uint32_t{float_to_bf16(v[2 * i + 1])} << 16;
  *reinterpret_cast<Four<uint32_t>*>(to.at + 2 * k) = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

/// A row that some warps of a block bring to its form: what it is made of, and the block's memory.
/// Addresses are multiples of 16 bytes.
struct RowSource {
  const float* x;
  Norm norm;
  int32_t cols;
  FormPlaces places;
  uint8_t* form;      ///< of both terms
  float* largest_of;  ///< [cols / 32], of kPer32
  float* inverse;     ///< of the norm
  float* staged;      ///< [cols] with a norm
  float* weights;     ///< [cols], of the norm; or nullptr where there is no room

  VEERY_GPU FormRow row(int term) const { return {form + term * places.bytes, places}; }
};

/// A row's way to its form, by warps 0 to kWarps - 1 of a block; a group of 256 columns each. What
/// is done once a row is short rather than unrolled, as its instructions have to be fetched each
/// time: that took a third of a product.
template <FormKind kKind, int kTerms, int kWarps>
class RowMaker {
 public:
  VEERY_GPU explicit RowMaker(const RowSource& source)
      : of_(source),
        first_(source.row(0)),
        second_(source.row(1)),
        groups_((source.cols + 255) / 256) {}

  /// With barriers of the block, one of them at the end. The norm's weights are asked for before
  /// `wait` returns, as the row is there only then.
  template <typename Wait>
  VEERY_GPU Row make(const Wait& wait) {
    if (of_.norm.weight == nullptr) {
      wait();
      if (warp() < kWarps) make_plain();
      sync_block();
      return {of_.x, nullptr, 1};
    }
    if (of_.weights != nullptr) copy(of_.norm.weight, of_.weights);
    wait();
    copy(of_.x, of_.staged);
    wait_for_groups<0>();
    sync_block();
    if (warp() == 0) {
      const float inverse = inverse_rms(of_.staged, of_.cols, of_.norm.eps);
      if (lane() == 0) *of_.inverse = inverse;
    }
    sync_block();
    const float inverse = *of_.inverse;
    if (warp() < kWarps) normalise(inverse);
    sync_block();
    return {of_.x, of_.norm.weight, inverse};
  }

 private:
  static VEERY_GPU int column(int group) { return 256 * group + 8 * lane(); }
  VEERY_GPU void load_group(const float* at, int group, Eight& v) const {
    if (column(group) < of_.cols) load_eight(at + column(group), v);
  }
  VEERY_GPU void copy(const float* from, float* to) const {
    for (int i = 4 * thread(); i < of_.cols; i += 4 * threads())
      begin_copy(reinterpret_cast<uint8_t*>(to + i), reinterpret_cast<const uint8_t*>(from + i));
    end_group();
  }
  VEERY_GPU void normalise(float inverse) const {
    const float* weights = of_.weights != nullptr ? of_.weights : of_.norm.weight;
    VEERY_UNROLL(1)
    for (int g = warp(); g < groups_; g += kWarps) {
      Eight v = {}, w = {};
      load_group(of_.staged, g, v);
      load_group(weights, g, w);
      VEERY_UNROLL(8)
      for (int e = 0; e < 8; ++e) v[e] = v[e] * inverse * w[e];
      form(g, v);
    }
  }
  // Two groups together, the next two on their way.
  VEERY_GPU void make_plain() const {
    Eight next[2] = {};
    const auto read = [&](int g) {
      load_group(of_.x, g, next[0]);
      load_group(of_.x, g + kWarps, next[1]);
    };
    read(warp());
    VEERY_UNROLL(1)
    for (int g = warp(); g < groups_; g += 2 * kWarps) {
      Eight v[2];
      VEERY_UNROLL(8)
      for (int e = 0; e < 8; ++e) v[0][e] = next[0][e], v[1][e] = next[1][e];
      read(g + 2 * kWarps);
      form(g, v[0]);
      if (g + kWarps < groups_) form(g + kWarps, v[1]);
    }
  }
  VEERY_GPU void form(int group, Eight& v) const {
    write(first_, group, v);
    if constexpr (kTerms == 2) write(second_, group, v);
  }
  VEERY_GPU void write(const FormRow& to, int group, Eight& v) const {
    if constexpr (kKind == FormKind::kBF16)
      form_bf16(to, group, of_.cols, v);
    else if constexpr (kKind == FormKind::kPer32)
      form_per32(to, 8 * group, of_.cols / 32, v, of_.largest_of);
    else
      form_per256(to, group, v);
  }

  const RowSource& of_;
  FormRow first_, second_;
  int groups_;
};

/// The outliers of a row in blocks of 32 and what their codes leave over, by one warp.
VEERY_GPU void make_row_residual(const RowSource& of, const Row& row) {
  const FormRow to = of.row(0);
  find_outliers(of.largest_of, of.cols / 32, to.ints(to.places.outliers));
  sync_warp();
  const int32_t* list = to.ints(to.places.outliers);
  VEERY_UNROLL(4)
  for (int e = 0; e < list[0]; ++e)
    write_residual(to, list[1 + e], row.at(32 * list[1 + e] + lane()));
  sync_warp();
}

}  // namespace veery::gpu
