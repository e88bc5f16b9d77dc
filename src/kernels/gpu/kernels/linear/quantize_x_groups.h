// quantize_x_groups.h: activation quantisation of many rows, in groups of 8 (x_groups-inl.h). A
// warp has the same columns of several rows of a group, so that it writes whole sectors of memory,
// or whole lines if it has all 8 rows.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

/// quantize_x_groups(): the same for many rows, in groups of 8.
struct QuantizeXGroupsParams {
  Run run;
  Matrix x;
  Norm norm;
  Activations act;
  VEERY_DEVICE uint64_t* argmax_keys;  ///< GemmParams::argmax_keys, cleared here; or nullptr
  int32_t slot_bits;         ///< log2 of the slots of a group (of 8) that a thread block fills
  int32_t blocks_per_row;    ///< thread blocks that share these; 1 if a block needs whole rows
  int32_t staged;            ///< 1: shared memory holds the rows and the norm's weights
  int32_t delay_dependents;  ///< 1: the next launch begins only after this one has ended
};

/// Offsets in floats.
struct QuantizeXGroupsSmem {
  int inverse;  ///< 1 / RMS of each row; before it, kInt8Block32: max_abs [slots][cols / 32]
  int weights, rows, pitch;
  int64_t floats;
  /// Whether a thread block needs whole rows: for a norm, or for the mean magnitude of the blocks.
  static VEERY_GPU_HOST constexpr bool needs_rows(ActivationKind kind, bool normed) {
    return normed || kind == ActivationKind::kInt8Block32;
  }
  /// Columns of a row that a warp quantises at a time; a lane has 4 of each 16.
  static VEERY_GPU_HOST constexpr int columns(ActivationKind kind) {
    return kind == ActivationKind::kInt8Block256 || kind == ActivationKind::kInt4Digits ? 256 : 128;
  }
  /// 256 columns take twice as many registers.
  static VEERY_GPU_HOST constexpr int max_warps(ActivationKind kind) {
    return columns(kind) == 256 ? 4 : 8;
  }
};
/// `slots`: rows of a group that a thread block fills; `rows`: token rows that it reads.
VEERY_GPU_HOST constexpr QuantizeXGroupsSmem quantize_x_groups_smem(ActivationKind kind,
                                                                    int32_t cols, int slots,
                                                                    int rows, bool staged) {
  QuantizeXGroupsSmem p{};
  p.inverse = kind == ActivationKind::kInt8Block32 ? (slots * (cols / 32) + 3) / 4 * 4 : 0;
  p.weights = p.inverse + 8;
  p.rows = p.weights + cols;
  p.pitch = cols + 16;  // neighbouring rows start in different banks
  p.floats = staged ? p.rows + int64_t{rows} * p.pitch : p.weights;
  return p;
}

namespace key {

constexpr KernelKey quantize_x_groups(ActivationKind kind) {
  return of(Family::kQuantizeXGroups, static_cast<int>(kind), RowClass::kMany, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/linear/gemv_quantize_x-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"

namespace veery::gpu {

// A lane's share of 32 columns of a row. Four lanes hold these columns: each has four columns of
// each half, from 4 (lane() % 4) on.
using Part = float[2][4];

// Splits the columns from k on into kParts parts of two halves, and calls take(half, first column)
// for each half that begins before column `cols`.
template <int kParts, typename Parts, typename Take>
VEERY_GPU void for_halves(int k, int cols, Parts& v, const Take& take) {
  const auto go = [&](bool all) {
    VEERY_UNROLL(8)
    for (int s = 0; s < kParts; ++s) VEERY_UNROLL(2)
    for (int h = 0; h < 2; ++h)
      if (all || k + 32 * s + 16 * h < cols) take(v[s][h], k + 32 * s + 16 * h + lane() % 4 * 4);
  };
  if (k + 32 * kParts <= cols)
    go(true);
  else if (kParts < 8)  // eight parts exist or not as a whole
    go(false);
}
// Loads parts; x is a multiple of 16 bytes.
template <int kParts>
VEERY_GPU void load_parts(const float* x, int k, int cols, Part (&v)[kParts]) {
  for_halves<kParts>(k, cols, v, [&](float(&to)[4], int column) {
    const auto from = load<Four<float>>(x + column);
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
  });
}
template <int kParts>
VEERY_GPU void store_parts(float* x, int k, int cols, const Part (&v)[kParts]) {
  for_halves<kParts>(k, cols, v, [&](const float(&from)[4], int column) {
    *reinterpret_cast<Four<float>*>(x + column) = {from[0], from[1], from[2], from[3]};
  });
}
template <int kParts>
VEERY_GPU void normalise_parts(const float* weights, float inverse, int k, int cols,
                               Part (&v)[kParts]) {
  for_halves<kParts>(k, cols, v, [&](float(&to)[4], int column) {
    const auto w = load<Four<float>>(weights + column);
    to[0] = to[0] * inverse * w.x, to[1] = to[1] * inverse * w.y;
    to[2] = to[2] * inverse * w.z, to[3] = to[3] * inverse * w.w;
  });
}
VEERY_GPU bool is_aligned_16(const void* at) { return reinterpret_cast<uint64_t>(at) % 16 == 0; }

// The place of a lane's codes in a group.
struct LaneSlot {
  int row;  // of the group

  /// Index of the lane's four columns among those of the 8 rows.
  VEERY_GPU int four() const { return 4 * row + lane() % 4; }
};

// Reduces 4 kPerLane numbers over the four lanes of a row; lane t gets those from kPerLane t on.
template <int kPerLane, typename T, typename Join>
VEERY_GPU void reduce_and_distribute(const T (&of)[4 * kPerLane], T (&own)[kPerLane],
                                     const Join& join) {
  const bool upper = lane() % 4 >= 2, odd = lane() % 2 != 0;
  T half[2 * kPerLane];
  VEERY_UNROLL(8)
  for (int i = 0; i < 2 * kPerLane; ++i) {
    const T low = of[i], high = of[2 * kPerLane + i];
    half[i] = join(upper ? high : low, shuffle_xor(upper ? low : high, 2));
  }
  VEERY_UNROLL(4)
  for (int i = 0; i < kPerLane; ++i) {
    const T low = half[i], high = half[kPerLane + i];
    own[i] = join(odd ? high : low, shuffle_xor(odd ? low : high, 1));
  }
}
// The largest magnitudes of parts, distributed over the four lanes of a row.
template <int kParts>
VEERY_GPU void distribute_max_abs(const Part (&v)[kParts], float (&own)[kParts / 4]) {
  float max_abs[kParts];
  VEERY_UNROLL(8)
  for (int s = 0; s < kParts; ++s) max_abs[s] = max_f32(max_abs_4(v[s][0]), max_abs_4(v[s][1]));
  reduce_and_distribute<kParts / 4>(max_abs, own, [](float x, float y) { return max_f32(x, y); });
}
// The codes of a part, one word per half, and their sums.
VEERY_GPU void quantize_part(const Part& v, float inverse, uint32_t (&codes)[2], int (&sum)[2]) {
  VEERY_UNROLL(2)
  for (int h = 0; h < 2; ++h) {
    uint32_t q[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) q[i] = static_cast<uint32_t>(round_to_int(v[h][i] * inverse));
    codes[h] = pack_low_bytes(q);
    sum[h] = add_bytes_s8(codes[h], 0);
  }
}
// Leaves the residual of the codes in v.
VEERY_GPU void subtract_codes(float inverse, float step, Part& v) {
  VEERY_UNROLL(2)
  for (int h = 0; h < 2; ++h) VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i)
    v[h][i] = fma(-step, static_cast<float>(round_to_int(v[h][i] * inverse)), v[h][i]);
}

// The scale of a block of 256 and the shifts of its parts, one byte each.
struct BlockScales {
  QuantScale whole;
  uint32_t shifts[2];

  VEERY_GPU float scale() const { return whole.scale / 8; }
  VEERY_GPU int shift(int s) const { return byte_of(shifts[s / 4], s % 4); }
  VEERY_GPU float inverse(int s) const { return whole.inverse * static_cast<float>(8 >> shift(s)); }
  VEERY_GPU float step(int s) const { return scale() * static_cast<float>(1 << shift(s)); }
};
VEERY_GPU BlockScales block_scales(const Part (&v)[8]) {
  float own[2];
  distribute_max_abs(v, own);
  float all = max_f32(own[0], own[1]);
  all = max_f32(all, shuffle_xor(all, 1));
  all = max_f32(all, shuffle_xor(all, 2));
  uint32_t word = 0;
  VEERY_UNROLL(2)
  for (int i = 0; i < 2; ++i) {
    // How often the part can be doubled without exceeding the block's largest magnitude.
    const float twice = 2 * own[i], four = 2 * twice, eight = 2 * four;
    const int doubled = (twice <= all ? 1 : 0) + (four <= all ? 1 : 0) + (eight <= all ? 1 : 0);
    word |= static_cast<uint32_t>(3 - doubled) << (lane() % 2 * 16 + 8 * i);
  }
  word |= shuffle_xor(word, 1);
  const uint32_t other = shuffle_xor(word, 2);
  const bool upper = lane() % 4 >= 2;
  return {quant_scale(all), {upper ? other : word, upper ? word : other}};
}

// Splits four codes times 2^shift into digits (kInt4Digits): x high, y low.
VEERY_GPU Two<uint32_t> to_digits(uint32_t codes, int shift) {
  const auto everywhere = [](uint32_t byte) { return byte * 0x01010101U; };
  const int right = 4 - shift;
  // Adds 128 to make the codes unsigned, and subtracts it again after the shift.
  const uint32_t more = ((codes ^ 0x80808080U) >> right) & everywhere(0xffU >> right);
  const uint32_t high = (more + everywhere(128U - (128U >> right))) ^ 0x80808080U;
  return {high, (codes << shift) & everywhere(0xfU << shift & 0xfU)};
}
// Splits two sums into numbers that are exact in f16: first sum / 64, rounded, of both, then the
// two remainders.
VEERY_GPU Two<uint32_t> split_sums_f16(int even, int odd) {
  const auto pair = [](int x, int y) {
    return float_to_f16(static_cast<float>(x)) | uint32_t{float_to_f16(static_cast<float>(y))}
                                                     << 16;
  };
  const int first = (even + 32) >> 6, second = (odd + 32) >> 6;
  return {pair(first, second), pair(even - 64 * first, odd - 64 * second)};
}

// Writes 256 columns of a K tile of kInt8Block256 or kInt4Digits, if `valid`.
template <ActivationKind kKind>
VEERY_GPU void write_k_tile_256(const ActivationGroupLayout& layout, uint8_t* k_tile,
                                const LaneSlot& of, bool valid, const Part (&v)[8]) {
  constexpr bool kDigits = kKind == ActivationKind::kInt4Digits;
  const BlockScales steps = block_scales(v);
  constexpr int kLaneSums = kDigits ? 2 : 4;  // sums of a lane: of parts, or of 16 columns
  int sums[4 * kLaneSums];
  VEERY_UNROLL(8)
  for (int s = 0; s < 8; ++s) {
    const int shift = steps.shift(s);
    uint32_t codes[2];
    int sum[2];
    quantize_part(v[s], steps.inverse(s), codes, sum);
    if constexpr (kDigits)
      sums[s] = (sum[0] + sum[1]) * (1 << shift);
    else
      sums[2 * s] = sum[0] * (1 << shift), sums[2 * s + 1] = sum[1] * (1 << shift);
    VEERY_UNROLL(2)
    for (int h = 0; kDigits && valid && h < 2; ++h) {
      const Two<uint32_t> digits = to_digits(codes[h], shift);
      uint8_t* to = k_tile + s * 512 + h * 128 + of.four() * 4;
      *reinterpret_cast<uint32_t*>(to) = digits.x;
      *reinterpret_cast<uint32_t*>(to + 256) = digits.y;
    }
    if (!kDigits && valid)
      *reinterpret_cast<Two<uint32_t>*>(k_tile + s * 256 + of.four() * 8) = {codes[0], codes[1]};
  }
  const int t = lane() % 4;
  int own[kLaneSums];
  reduce_and_distribute<kLaneSums>(sums, own, [](int x, int y) { return x + y; });
  if (!valid) return;
  auto* parts = reinterpret_cast<Two<uint32_t>*>(k_tile + layout.sums + of.four() * 8);
  if (t == 0) reinterpret_cast<float*>(k_tile + layout.scale)[of.row] = steps.scale();
  if constexpr (kDigits) {
    *parts = split_sums_f16(own[0], own[1]);
  } else {
    *parts = split_sums_f16(own[0] + own[1], own[2] + own[3]);
    const Two<uint32_t> a = split_sums_f16(own[0], own[1]), b = split_sums_f16(own[2], own[3]);
    *reinterpret_cast<Four<uint32_t>*>(k_tile + layout.sums16 + t / 2 * 256 + of.row * 32 +
                                       t % 2 * 16) = {a.x, a.y, b.x, b.y};
    if (t < 2)
      *reinterpret_cast<uint32_t*>(k_tile + layout.shift + t * 32 + of.row * 4) =
          t == 0 ? steps.shifts[0] : steps.shifts[1];
  }
}

// Writes four blocks of 32 from b on, up to `blocks`. `max_abs`: gets the largest magnitudes of the
// row's blocks.
VEERY_GPU void write_k_tile_32(const ActivationGroup& to, int b, int blocks, const LaneSlot& of,
                               const Part (&v)[4], float* max_abs) {
  float max_abs_of[1];
  distribute_max_abs(v, max_abs_of);
  const QuantScale scale = quant_scale(max_abs_of[0]);
  int sums[4], sum[1];
  VEERY_UNROLL(4)
  for (int s = 0; s < 4; ++s) {
    uint32_t codes[2];
    int halves[2];
    quantize_part(v[s], shuffle(scale.inverse, lane() / 4 * 4 + s), codes, halves);
    sums[s] = halves[0] + halves[1];
    if (b + s < blocks)
      *reinterpret_cast<Two<uint32_t>*>(to.k_tile(b) + s * 256 + of.four() * 8) = {codes[0],
                                                                                   codes[1]};
  }
  reduce_and_distribute<1>(sums, sum, [](int x, int y) { return x + y; });
  const int own = b + lane() % 4;
  if (own >= blocks) return;
  to.in_k_tile<float>(to.layout.scale, own, of.row) = scale.scale;
  to.in_k_tile<int32_t>(to.layout.sum, own, of.row) = sum[0];
  to.in_k_tile<float>(to.layout.moment, own, of.row) = scale.scale * static_cast<float>(sum[0]);
  to.after_k_tiles<float>(to.layout.residual_scale, own, of.row) = 0;
  max_abs[own] = max_abs_of[0];
}

// Writes 128 columns as bf16, of which `columns` exist.
VEERY_GPU void write_k_tile_bf16(uint8_t* k_tile, int columns, const LaneSlot& of,
                                 const Part (&v)[4]) {
  const auto word = [](float low, float high) {
    return float_to_bf16(low) | uint32_t{float_to_bf16(high)} << 16;
  };
  VEERY_UNROLL(8)
  for (int u = 0; u < 8; ++u) {
    if (16 * u >= columns) continue;
    const float(&of_16)[4] = v[u / 2][u % 2];
    auto* to = reinterpret_cast<uint32_t*>(k_tile + u * 256) + of.four();
    to[0] = word(of_16[0], of_16[1]), to[32] = word(of_16[2], of_16[3]);
  }
}

// Quantises the residuals of outlier blocks, after computing their codes again. Eight lanes process
// one block: the one of entry e + lane() / 8 of the list.
VEERY_GPU void write_outlier_residuals(const ActivationGroup& to, const Row& row, int slot,
                                       const float* max_abs, int e) {
  const int32_t* list = to.outliers(slot);
  const bool valid = e + lane() / 8 < list[0];
  const int b = list[1 + e + (valid ? lane() / 8 : 0)], l = lane() % 8;
  float v[4];
  four_of(row, 32 * b + 4 * l, v);
  const QuantScale scale = quant_scale(max_abs[b]);
  int q = 0, sum = 0;
  uint32_t codes[4];
  VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const int code = round_to_int(v[i] * scale.inverse);
    const float rest = fma(-scale.scale, static_cast<float>(code), v[i]);
    const int r = round_to_int(rest * (254.0F / scale.scale));
    q += code, sum += r;
    codes[i] = static_cast<uint32_t>(r);
  }
  const auto add = [](int x, int y) { return x + y; };
  q = reduce_8_lanes(q, add), sum = reduce_8_lanes(sum, add);
  if (!valid) return;
  uint8_t* at = to.at + to.layout.residual + b * 256 + slot * 32;
  *reinterpret_cast<uint32_t*>(at + code_offset(4 * l)) = pack_low_bytes(codes);
  if (l != 0) return;
  const float residual_scale = scale.scale / 254.0F;
  to.after_k_tiles<float>(to.layout.residual_scale, b, slot) = residual_scale;
  to.after_k_tiles<int32_t>(to.layout.residual_sum, b, slot) = sum;
  to.in_k_tile<float>(to.layout.moment, b, slot) =
      scale.scale * static_cast<float>(q) + residual_scale * static_cast<float>(sum);
}

// inverse_rms() with few registers, for rows of lengths that inverse_rms_shared() does not take.
VEERY_GPU float inverse_rms_few_registers(const float* x, int n, float eps) {
  float a = 0, b = 0;
  VEERY_UNROLL(4)
  for (int k = lane(); k < n; k += 64) {
    a = fma(x[k], x[k], a);
    if (k + 32 < n) b = fma(x[k + 32], x[k + 32], b);
  }
  const float low = a + shuffle_xor(a, 16), high = b + shuffle_xor(b, 16);
  const float total = shuffle(sum_16_lanes(low + high), 0);
  return 1.0F / square_root(total / static_cast<float>(n) + eps);
}

/// A thread block, or blocks_per_row of them, quantise some rows of a group, or fill up the group.
template <ActivationKind kKind>
class GroupQuantizer {
 public:
  static constexpr bool k256 =
      kKind == ActivationKind::kInt8Block256 || kKind == ActivationKind::kInt4Digits;
  static constexpr int kColumns = QuantizeXGroupsSmem::columns(kKind);
  using Parts = Part[kColumns / 32];

  VEERY_GPU explicit GroupQuantizer(const QuantizeXGroupsParams& params)
      : a_(params),
        cols_(a_.act.cols),
        count_(1 << a_.slot_bits),
        term_bits_(a_.act.residual_rows != 0 ? 1 : 0),
        layout_(quantize_x_groups_smem(kKind, cols_, count_, count_ >> term_bits_, a_.staged != 0)),
        first_(int64_t{block_x() / a_.blocks_per_row} << a_.slot_bits) {}

  VEERY_GPU void run() {
    if (a_.staged != 0) copy_norm_weights();
    a_.delay_dependents != 0 ? wait_for_dependencies_only() : wait_for_dependencies();
    rows_ = a_.run.count(a_.x.rows);
    if (first_ / 8 * 8 >= rows_ << term_bits_) return wait_for_copies<0>();
    if (a_.argmax_keys != nullptr && block_x() % a_.blocks_per_row == 0 && thread() < rows() &&
        has_row(thread()))
      a_.argmax_keys[row(thread())] = 0;
    write();
    if constexpr (kKind == ActivationKind::kInt8Block32) quantize_outliers(group());
  }

 private:
  // The block has rows() token rows; row(i) is the index of its row i in x.
  VEERY_GPU int rows() const { return count_ >> term_bits_; }
  VEERY_GPU int64_t row(int i) const { return (first_ >> term_bits_) + i; }
  VEERY_GPU bool has_row(int i) const { return row(i) < rows_; }
  // Returns the slot of the lane's row in the block.
  VEERY_GPU int slot() const { return lane() / 4 & (count_ - 1); }
  VEERY_GPU ActivationGroup group() const {
    Activations act = a_.act;
    act.kind = kKind;  // a constant for the compiler
    return activation_group(act, first_ / 8);
  }
  VEERY_GPU float* shared(int offset) const {
    return reinterpret_cast<float*>(shared_memory()) + offset;
  }
  // Returns the largest magnitudes of the blocks of 32 of slot i.
  VEERY_GPU float* max_abs(int i) const { return shared(i * (cols_ / 32)); }
  VEERY_GPU float& inverse(int i) const { return *shared(layout_.inverse + i); }
  VEERY_GPU float* weights() const { return shared(layout_.weights); }
  VEERY_GPU float* staged(int i) const { return shared(layout_.rows + i * layout_.pitch); }
  VEERY_GPU Row row_at(int i) const {
    const float* x = a_.x.row(row(i));
    if (a_.norm.weight == nullptr) return {x, nullptr, 1};
    return {a_.staged != 0 ? staged(i) : x, a_.staged != 0 ? weights() : a_.norm.weight,
            inverse(i)};
  }

  VEERY_GPU void copy_norm_weights() const {
    const float* from = a_.norm.weight;
    if (is_aligned_16(from)) return gpu::copy_norm_weights(a_.norm, cols_, weights());
    for (int k = thread(); k < cols_; k += threads()) weights()[k] = from[k];
  }
  VEERY_GPU void compute_norms() const {
    wait_for_copies<0>();
    sync_block();
    for (int i = warp(); i < rows() && has_row(i); i += warps()) {
      const float of = a_.staged != 0 && cols_ % 1024 == 0
                           ? inverse_rms_shared(staged(i), cols_, a_.norm.eps)
                           : inverse_rms_few_registers(row_at(i).x, cols_, a_.norm.eps);
      if (lane() == 0) inverse(i) = of;
    }
    sync_block();
  }

  // A unit is kColumns columns. A warp has one unit of 8 rows at a time, or several units of fewer
  // rows. The first one stays in registers while the norms are computed.
  VEERY_GPU void write() const {
    const int i = slot(), own = lane() / 4 >> a_.slot_bits, row = i >> term_bits_;
    const LaneSlot of = {static_cast<int>(first_ % 8) + i};
    const int together = 8 >> a_.slot_bits, step = together * a_.blocks_per_row * warps();
    const int begin = together * (block_x() % a_.blocks_per_row * warps() + warp());
    const bool normed = a_.norm.weight != nullptr, stages = a_.staged != 0;
    Parts v = {};
    if (!normed || stages) {
      int u = begin;
      while (stages && kColumns * (u + step) < cols_) u += step;
      VEERY_UNROLL(1)
      for (; u >= begin && has_row(row); u -= step) {
        load_row(row, kColumns * (u + own), v);
        if (stages) store_parts(staged(row), kColumns * (u + own), cols_, v);
      }
    }
    if (normed) compute_norms();
    const ActivationGroup to = group();
    VEERY_UNROLL(1)
    for (int u = begin; kColumns * u < cols_; u += step) {
      const int k = kColumns * (u + own);
      if (has_row(row) && stages) {
        if (u != begin) load_parts(staged(row), k, cols_, v);
        normalise_parts(weights(), inverse(row), k, cols_, v);
      } else if (has_row(row) && (normed || u != begin)) {
        load_row(row, k, v);
      }
      write_unit(to, of, u + own, v);  // by all lanes, as they exchange values
    }
  }
  VEERY_GPU void load_row(int i, int k, Parts& v) const {
    const float* x = a_.x.row(row(i));
    const bool raw = a_.norm.weight == nullptr || a_.staged != 0;
    if (raw && is_aligned_16(x)) return load_parts(x, k, cols_, v);
    const Row of = raw ? Row{x, nullptr, 1} : row_at(i);
    for_halves<kColumns / 32>(k, cols_, v, [&](float(&to)[4], int column) {
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e) to[e] = of.at(column + e);
    });
  }
  VEERY_GPU void write_unit(const ActivationGroup& to, const LaneSlot& of, int u, Parts& v) const {
    if constexpr (kKind == ActivationKind::kBF16) {
      write_k_tile_bf16(to.k_tile(4 * u), cols_ - 128 * u, of, v);
    } else {
      if (kKind != ActivationKind::kInt4Digits && term_bits_ != 0) subtract_first_term(of, v);
      if constexpr (kKind == ActivationKind::kInt8Block32)
        write_k_tile_32(to, 4 * u, cols_ / 32, of, v, max_abs(slot()));
      else
        write_k_tile_256<kKind>(to.layout, to.k_tile(8 * u), of, 256 * u < cols_, v);
    }
  }
  // Residual quantisation: every second slot has the residual of the slot before it.
  VEERY_GPU void subtract_first_term(const LaneSlot& of, Parts& v) const {
    const bool second = of.row % 2 != 0;
    if constexpr (k256) {
      const BlockScales steps = block_scales(v);
      VEERY_UNROLL(8)
      for (int s = 0; second && s < 8; ++s) subtract_codes(steps.inverse(s), steps.step(s), v[s]);
    } else {
      float own[1];
      distribute_max_abs(v, own);
      const QuantScale scale = quant_scale(own[0]);
      VEERY_UNROLL(4)
      for (int s = 0; s < 4; ++s) {
        const float inverse = shuffle(scale.inverse, lane() / 4 * 4 + s);
        const float step = shuffle(scale.scale, lane() / 4 * 4 + s);
        if (second) subtract_codes(inverse, step, v[s]);
      }
    }
  }

  VEERY_GPU void quantize_outliers(const ActivationGroup& to) const {
    const int blocks = cols_ / 32, first = static_cast<int>(first_ % 8);
    if (term_bits_ != 0) {
      if (thread() < count_) to.outliers(first + thread())[0] = 0;
      return;
    }
    sync_block();
    for (int i = warp(); i < count_; i += warps())
      find_outliers(max_abs(i), blocks, to.outliers(first + i));
    sync_block();
    // All rows of the block together, as one row may have many outliers.
    const int found = lane() < count_ && has_row(lane()) ? to.outliers(first + lane())[0] : 0;
    int begin = 4 * warp();
    for (int i = 0; i < count_; ++i) {
      const int count = (shuffle(found, i) + 3) / 4 * 4;
      for (; begin < count; begin += 4 * warps())
        write_outlier_residuals(to, row_at(i), first + i, max_abs(i), begin);
      begin -= count;
    }
  }

  const QuantizeXGroupsParams& a_;
  int cols_, count_, term_bits_;  // count: slots
  QuantizeXGroupsSmem layout_;
  int64_t first_, rows_ = 0;  // slots before the block; token rows
};
template <ActivationKind kKind>
VEERY_GPU void quantize_x_groups(const QuantizeXGroupsParams& a) {
  GroupQuantizer<kKind>(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_QUANTIZE_GROUPS(X, name, kind, least_blocks)                           \
  X(kCuda, quantize_x_groups_##name, QuantizeXGroupsParams,                              \
    (32 * veery::gpu::QuantizeXGroupsSmem::max_warps(veery::gpu::ActivationKind::kind)), \
    least_blocks, key::quantize_x_groups(ActivationKind::kind),                          \
    (quantize_x_groups<ActivationKind::kind>))
#define VEERY_GPU_QUANTIZE_X_GROUPS_KERNELS(X)              \
  VEERY_GPU_QUANTIZE_GROUPS(X, int8_32, kInt8Block32, 2)    \
  VEERY_GPU_QUANTIZE_GROUPS(X, int8_256, kInt8Block256, 3)  \
  VEERY_GPU_QUANTIZE_GROUPS(X, int4_digits, kInt4Digits, 3) \
  VEERY_GPU_QUANTIZE_GROUPS(X, bf16, kBF16, 2)
