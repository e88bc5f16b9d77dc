// quantize_x.h: RMS norm and activation quantisation of token rows, in the order of
// docs/numerics.md.
#pragma once
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

/// quantize_x(): one token row per thread block, or part of one.
struct QuantizeXParams {
  Run run;
  Matrix x;
  Norm norm;
  Activations act;
  VEERY_DEVICE uint64_t* argmax_keys;  ///< GemmParams::argmax_keys, cleared here; or nullptr
  int32_t staged;                      ///< 1: shared memory holds the row that is normalised
  int32_t staged_weights;  ///< 1: and the norm's weights, whose rows are multiples of 16 bytes
  int32_t blocks_per_row;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/formulas.h"

namespace veery::gpu {

/// Adds every 32nd of 1,024 elements, from i on and below n, to the partial sums a and b of a lane.
/// All loads are issued first, because they take longer than the sums.
template <bool kAll, typename Term>
VEERY_GPU void add_to_lane_sums(const VEERY_DEVICE float* x, int i, int n,
                                const VEERY_THREAD Term& term, VEERY_THREAD float& a,
                                VEERY_THREAD float& b) {
  float v[32];
  VEERY_UNROLL(32)
  for (int j = 0; j < 32; ++j) v[j] = kAll || i + 32 * j < n ? x[i + 32 * j] : 0.0F;
  VEERY_UNROLL(16)
  for (int j = 0; j < 32; j += 2) {
    if (kAll || i + 32 * j < n) a = term(v[j], a);
    if (kAll || i + 32 * j + 32 < n) b = term(v[j + 1], b);
  }
}
/// Returns the sum of n elements by 64 partial sums. Partial sum i adds the elements i, i + 64,
/// ...; lane l computes the partial sums l and l + 32.
template <typename Term>
VEERY_GPU float sum_in_lanes(const VEERY_DEVICE float* x, int n, const VEERY_THREAD Term& term) {
  float a = 0, b = 0;
  int first = 0;
  for (; first + 1024 <= n; first += 1024) add_to_lane_sums<true>(x, first + lane(), n, term, a, b);
  if (first < n) add_to_lane_sums<false>(x, first + lane(), n, term, a, b);
  const float low = a + shuffle_xor(a, 16);
  const float high = b + shuffle_xor(b, 16);
  return shuffle(sum_16_lanes(low + high), 0);
}

/// Returns 1 / sqrt(mean(x^2) + eps) of n elements, computed by a warp, in all lanes.
VEERY_GPU float inverse_rms(const VEERY_DEVICE float* x, int n, float eps) {
  const float total = sum_in_lanes(x, n, [](float v, float sum) { return fma(v, v, sum); });
  return 1.0F / square_root(total / static_cast<float>(n) + eps);
}

/// Mean and 1 / sqrt(variance + eps) of n elements, with the same partial sums.
VEERY_GPU Two<float> mean_and_inverse_std(const VEERY_DEVICE float* x, int n, float eps) {
  const auto size = static_cast<float>(n);
  const float mean = sum_in_lanes(x, n, [](float v, float sum) { return sum + v; }) / size;
  const float squares =
      sum_in_lanes(x, n, [&](float v, float sum) { return fma(v - mean, v - mean, sum); });
  return {mean, 1.0F / square_root(squares / size + eps)};
}

/// A row, normalised if there is a weight.
struct Row {
  const VEERY_DEVICE float* x;
  const VEERY_DEVICE float* weight;  ///< or nullptr
  float inverse;

  VEERY_GPU float at(int k) const { return weight == nullptr ? x[k] : x[k] * inverse * weight[k]; }
};

/// Issues the copy of the norm's weights to shared memory, before the row has been computed.
VEERY_GPU void copy_norm_weights(const VEERY_THREAD Norm& norm, int n,
                                 VEERY_SHARED float* shared VEERY_CONTEXT) {
  for (int i = 4 * thread(); i < n; i += 4 * threads())
    copy_async_16(reinterpret_cast<VEERY_SHARED uint8_t*>(shared + i),
                  reinterpret_cast<const VEERY_DEVICE uint8_t*>(norm.weight + i));
  commit_copies();
}
/// Loads the row of a thread block. With a norm `shared` has 4 floats and, if `staged`, n more for
/// the row, because summing over device memory is slow. `weights`: the destination of
/// copy_norm_weights(), or nullptr.
VEERY_GPU Row load_row_with_norm(const VEERY_DEVICE float* x, const VEERY_THREAD Norm& norm, int n,
                                 bool staged, VEERY_SHARED float* shared,
                                 const VEERY_SHARED float* weights VEERY_CONTEXT) {
  if (norm.weight == nullptr) return {x, nullptr, 1};
  if (staged) {
    VEERY_UNROLL(4)
    for (int i = thread(); i < n; i += threads()) shared[4 + i] = x[i];
    sync_block();
    x = staged_pointer(shared + 4, x);
  }
  if (warp() == 0) {
    const float inverse = inverse_rms(x, n, norm.eps);
    if (lane() == 0) *shared = inverse;
  }
  if (weights != nullptr) wait_for_copies<0>();
  sync_block();
  return {x, weights != nullptr ? staged_pointer(weights, norm.weight) : norm.weight, *shared};
}

// Offset of the code of column k.
VEERY_GPU int code_offset(int k) { return k / 32 * 32 + k % 16 / 4 * 8 + k % 32 / 16 * 4 + k % 4; }

/// A quantised row.
struct ActivationRow {
  VEERY_DEVICE uint8_t* at;
  ActivationLayout layout;

  VEERY_GPU VEERY_DEVICE int8_t* codes() const {
    return reinterpret_cast<VEERY_DEVICE int8_t*>(at + layout.codes);
  }
  VEERY_GPU VEERY_DEVICE int8_t* residual() const {
    return reinterpret_cast<VEERY_DEVICE int8_t*>(at + layout.residual);
  }
  VEERY_GPU VEERY_DEVICE float* floats(int64_t offset) const {
    return reinterpret_cast<VEERY_DEVICE float*>(at + offset);
  }
  VEERY_GPU VEERY_DEVICE int32_t* ints(int64_t offset) const {
    return reinterpret_cast<VEERY_DEVICE int32_t*>(at + offset);
  }
};
VEERY_GPU ActivationRow activation_row(const VEERY_THREAD Activations& act, int64_t r) {
  return {act.data + r * act.stride, activation_layout(act.kind, act.cols)};
}

struct QuantScale {
  float scale, inverse;
};
VEERY_GPU QuantScale quant_scale(float max_abs) {
  const bool tiny = !(max_abs > 1e-30F), huge = max_abs > 1e30F, endless = max_abs > 3.4028234e38F;
  const float less = huge ? 0x1p-64F : 1.0F, own = tiny || endless ? 1.0F : max_abs * less;
  const float scale = divide_normal(own, 127.0F) * (huge ? 0x1p64F : 1.0F);
  const float inverse = divide_normal(127.0F, own) * less;
  return {tiny ? 0.0F : endless ? max_abs : scale, tiny || endless ? 0.0F : inverse};
}

// Quantises blocks b, b + warps(), ... of 32 columns, up to `blocks`, kBlocks in all. v: the lane's
// element of each block. Blocks are processed together, because a warp would otherwise wait for
// each reduction. v becomes the residual; the largest magnitudes are stored to `max_abs_of` in
// shared memory.
template <int kBlocks>
VEERY_GPU void write_blocks_32(const VEERY_THREAD ActivationRow& to, int b, int blocks,
                               VEERY_THREAD float (&v)[kBlocks],
                               VEERY_SHARED float* max_abs_of VEERY_CONTEXT) {
  float max_abs[kBlocks];
  int q[kBlocks], sum[kBlocks];
  QuantScale scales[kBlocks];
  VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e) max_abs[e] = magnitude(v[e]);
  VEERY_UNROLL(5)
  for (int mask = 16; mask > 0; mask /= 2) VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e) max_abs[e] = max_f32(max_abs[e], shuffle_xor(max_abs[e], mask));
  // Each lane computes the scale of one block, because divisions are slow.
  float own = max_abs[0];
  VEERY_UNROLL(8)
  for (int e = 1; e < kBlocks; ++e) own = lane() % kBlocks == e ? max_abs[e] : own;
  const QuantScale of = quant_scale(own);
  VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e) scales[e] = {shuffle(of.scale, e), shuffle(of.inverse, e)};
  VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e) q[e] = sum[e] = round_to_int(v[e] * scales[e].inverse);
  VEERY_UNROLL(5)
  for (int mask = 16; mask > 0; mask /= 2) VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e) sum[e] += shuffle_xor(sum[e], mask);
  VEERY_UNROLL(8)
  for (int e = 0; e < kBlocks; ++e, b += warps()) {
    const float scale = scales[e].scale;
    v[e] = fma(-scale, static_cast<float>(q[e]), v[e]);
    if (b >= blocks) continue;
    to.codes()[code_offset(32 * b + lane())] = static_cast<int8_t>(q[e]);
    if (lane() != 0) continue;
    to.floats(to.layout.scale)[b] = scale;
    to.ints(to.layout.sum)[b] = sum[e];
    to.floats(to.layout.moment)[b] = scale * static_cast<float>(sum[e]);
    max_abs_of[b] = max_abs[e];
    to.floats(to.layout.residual_scale)[b] = 0;
  }
}

// Finds the outlier blocks: those whose largest magnitude is over 2.5 times the mean of all, at
// most a quarter of the blocks plus one. Writes their number, then their indices.
VEERY_GPU void find_outliers(const VEERY_SHARED float* max_abs, int blocks,
                             VEERY_DEVICE int32_t* list) {
  float all = 0;
  VEERY_UNROLL(16)
  for (int b = 0; b < blocks; ++b) all = all + max_abs[b];
  const float threshold = 2.5F * (all / static_cast<float>(blocks));
  const int limit = blocks / 4 + 1;
  int found = 0;
  for (int first = 0; first < blocks && found < limit; first += kWarp) {
    const int b = first + lane();
    const bool is_outlier =
        b < blocks && max_abs[b] > threshold && quant_scale(max_abs[b]).scale > 0;
    const uint32_t all_of = ballot(is_outlier);
    const int at = found + bit_count(all_of & ((1U << lane()) - 1));
    if (is_outlier && at < limit) list[1 + at] = b;
    found += bit_count(all_of);
  }
  if (lane() == 0) list[0] = found < limit ? found : limit;
}
VEERY_GPU void write_outlier_residual(const VEERY_THREAD ActivationRow& to, int b, float v) {
  const float scale = to.floats(to.layout.scale)[b];
  const int q = to.codes()[code_offset(32 * b + lane())];
  const int r = round_to_int(fma(-scale, static_cast<float>(q), v) * (254.0F / scale));
  to.residual()[code_offset(32 * b + lane())] = static_cast<int8_t>(r);
  const int sum = warp_sum(r);
  if (lane() != 0) return;
  const float residual_scale = scale / 254.0F;
  to.floats(to.layout.residual_scale)[b] = residual_scale;
  to.ints(to.layout.residual_sum)[b] = sum;
  VEERY_DEVICE float& moment = to.floats(to.layout.moment)[b];
  moment = moment + residual_scale * static_cast<float>(sum);
}

// Quantises a row in blocks of 32. A warp takes kBlocks at a time and loads the next ones ahead.
// `second`: gets the residual as a row of its own; or nullptr.
template <int kBlocks = 4>
VEERY_GPU void write_int8_32(const VEERY_THREAD Row& row, int cols,
                             const VEERY_THREAD ActivationRow& to,
                             const VEERY_THREAD ActivationRow* second,
                             VEERY_SHARED float* max_abs_of VEERY_CONTEXT) {
  const int blocks = cols / 32;
  float next[kBlocks];
  const auto read = [&](int b) {
    VEERY_UNROLL(8)
    for (int e = 0; e < kBlocks; ++e)
      next[e] = b + e * warps() < blocks ? row.at(32 * (b + e * warps()) + lane()) : 0.0F;
  };
  read(warp());
  for (int b = warp(); b < blocks; b += kBlocks * warps()) {
    float v[kBlocks];
    VEERY_UNROLL(8)
    for (int e = 0; e < kBlocks; ++e) v[e] = next[e];
    read(b + kBlocks * warps());
    write_blocks_32(to, b, blocks, v, max_abs_of VEERY_CONTEXT_ARG);
    if (second != nullptr) write_blocks_32(*second, b, blocks, v, max_abs_of VEERY_CONTEXT_ARG);
  }
  if (second != nullptr) {
    if (thread() == 0) to.ints(to.layout.outliers)[0] = second->ints(to.layout.outliers)[0] = 0;
    return;
  }
  sync_block();
  if (warp() == 0) find_outliers(max_abs_of, blocks, to.ints(to.layout.outliers));
  sync_block();
  const VEERY_DEVICE int32_t* list = to.ints(to.layout.outliers);
  for (int e = warp(); e < list[0]; e += warps())
    write_outlier_residual(to, list[1 + e], row.at(32 * list[1 + e] + lane()));
}

// Columns k to k + 3.
VEERY_GPU void four_of(const VEERY_THREAD Row& row, int k, VEERY_THREAD float (&v)[4]) {
  const bool aligned = reinterpret_cast<uint64_t>(row.x) % 16 == 0 &&
                       reinterpret_cast<uint64_t>(row.weight) % 16 == 0;
  if (!aligned) {
    for (int i = 0; i < 4; ++i) v[i] = row.at(k + i);
    return;
  }
  const auto x = load<Four<float>>(row.x + k);
  v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
  if (row.weight == nullptr) return;
  const auto w = load<Four<float>>(row.weight + k);
  v[0] = v[0] * row.inverse * w.x, v[1] = v[1] * row.inverse * w.y;
  v[2] = v[2] * row.inverse * w.z, v[3] = v[3] * row.inverse * w.w;
}

// Returns the largest magnitude of four numbers.
VEERY_GPU float max_abs_4(const VEERY_THREAD float (&v)[4]) {
  return max_f32(max_f32(magnitude(v[0]), magnitude(v[1])),
                 max_f32(magnitude(v[2]), magnitude(v[3])));
}
template <typename T, typename Join>
VEERY_GPU T reduce_8_lanes(T x, const VEERY_THREAD Join& join) {
  VEERY_UNROLL(3)
  for (int mask = 1; mask < 8; mask *= 2) x = join(x, shuffle_xor(x, mask));
  return x;
}
VEERY_GPU float max_8_lanes(float x) {
  return reduce_8_lanes(x, [](float p, float q) { return max_f32(p, q); });
}

// Stores the codes of columns 4 l to 4 l + 3 of 32, which are contiguous.
VEERY_GPU void store_codes(VEERY_DEVICE uint8_t* codes, int l, const VEERY_THREAD int (&q)[4]) {
  const auto byte = [](int x) { return static_cast<uint32_t>(x) & 0xffU; };
  *reinterpret_cast<VEERY_DEVICE uint32_t*>(codes + code_offset(4 * l)) =
      byte(q[0]) | byte(q[1]) << 8 | byte(q[2]) << 16 | byte(q[3]) << 24;
}

// Quantises a block of 256; v: columns 128 h + 4 lane() to 4 lane() + 3, which become the residual.
VEERY_GPU void write_block_256(const VEERY_THREAD ActivationRow& to, int b,
                               VEERY_THREAD float (&v)[2][4]) {
  const float max_abs[2] = {max_8_lanes(max_abs_4(v[0])), max_8_lanes(max_abs_4(v[1]))};
  float all = max_f32(max_abs[0], max_abs[1]);
  all = max_f32(all, shuffle_xor(all, 8));
  all = max_f32(all, shuffle_xor(all, 16));
  const QuantScale whole = quant_scale(all);
  const float scale = whole.scale / 8;
  if (lane() == 0) to.floats(to.layout.scale)[b] = scale;
  VEERY_UNROLL(2)
  for (int h = 0; h < 2; ++h) {
    const int s = 4 * h + lane() / 8, l = lane() % 8;
    int shift = 3;
    float inverse = whole.inverse;
    for (float x = 2 * max_abs[h]; shift > 0 && x <= all; x *= 2, --shift) inverse *= 2;
    const float step = scale * static_cast<float>(1 << shift);
    int q[4], sum = 0;
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      q[i] = round_to_int(v[h][i] * inverse);
      sum += q[i] << shift;
      v[h][i] = fma(-step, static_cast<float>(q[i]), v[h][i]);
    }
    store_codes(to.at + to.layout.codes + 256 * b + 32 * s, l, q);
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (l % 4 == 0) to.ints(to.layout.sum)[16 * b + 2 * s + l / 4] = sum;
    if (l == 0) to.ints(to.layout.shift)[8 * b + s] = shift;
  }
}
// Quantises part `part` of `parts` of the blocks of 256 of a row.
VEERY_GPU void write_int8_256(const VEERY_THREAD Row& row, int cols,
                              const VEERY_THREAD ActivationRow& to,
                              const VEERY_THREAD ActivationRow* second, int part,
                              int parts VEERY_CONTEXT) {
  float next[2][4];
  const auto read = [&](int b) {
    if (b >= cols / 256) return;
    four_of(row, 256 * b + 4 * lane(), next[0]);
    four_of(row, 256 * b + 128 + 4 * lane(), next[1]);
  };
  int b = warp() + part * warps();
  read(b);
  for (; b < cols / 256; b += parts * warps()) {
    float v[2][4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) v[0][i] = next[0][i], v[1][i] = next[1][i];
    read(b + parts * warps());
    write_block_256(to, b, v);
    if (second != nullptr) write_block_256(*second, b, v);
  }
}

VEERY_GPU void write_floats(const VEERY_THREAD Row& row, int cols, bool rounded,
                            VEERY_DEVICE float* to VEERY_CONTEXT) {
  for (int k = thread(); k < cols; k += threads()) {
    const float v = row.at(k);
    // Products of bf16 treat subnormal numbers as 0.
    to[k] = !rounded ? v : magnitude(v) < 0x1p-126F ? 0.0F : bf16_to_float(float_to_bf16(v));
  }
}

// Padded with 0 to the columns that weights have.
VEERY_GPU void write_bf16(const VEERY_THREAD Row& row, int cols,
                          VEERY_DEVICE uint16_t* to VEERY_CONTEXT) {
  for (int k = thread(); k < (cols + 15) / 16 * 16; k += threads())
    to[k] = k < cols ? float_to_bf16(row.at(k)) : uint16_t{0};
}

/// Quantises a row of x by QuantizeXParams::blocks_per_row thread blocks.
VEERY_GPU void quantize_x(const VEERY_THREAD QuantizeXParams& a VEERY_CONTEXT) {
  const int cols = a.act.cols;
  auto* max_abs_of = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
  VEERY_SHARED float* own = max_abs_of + (cols / 32 + 3) / 4 * 4;  // of load_row_with_norm()
  VEERY_SHARED float* weights = a.staged_weights != 0 ? own + 4 + cols : nullptr;
  if (weights != nullptr) copy_norm_weights(a.norm, cols, weights VEERY_CONTEXT_ARG);
  wait_for_dependencies();
  const int64_t r = block_x() / a.blocks_per_row;
  const int part = static_cast<int>(block_x() % a.blocks_per_row);
  if (r >= a.run.count(a.x.rows)) return wait_for_copies<0>();
  if (a.argmax_keys != nullptr && thread() == 0 && part == 0) a.argmax_keys[r] = 0;
  const Row row =
      load_row_with_norm(a.x.row(r), a.norm, cols, a.staged != 0, own, weights VEERY_CONTEXT_ARG);
  const ActivationRow to = activation_row(a.act, a.act.residual_rows != 0 ? 2 * r : r);
  const ActivationRow after = activation_row(a.act, 2 * r + 1);
  const VEERY_THREAD ActivationRow* second = a.act.residual_rows != 0 ? &after : nullptr;
  switch (a.act.kind) {
    case ActivationKind::kInt8Block32:
      return write_int8_32(row, cols, to, second, max_abs_of VEERY_CONTEXT_ARG);
    case ActivationKind::kInt8Block256:
      return write_int8_256(row, cols, to, second, part, a.blocks_per_row VEERY_CONTEXT_ARG);
    case ActivationKind::kInt4Digits: return;  // only for many rows
    case ActivationKind::kF32:
      return write_floats(row, cols, false, to.floats(0) VEERY_CONTEXT_ARG);
    case ActivationKind::kF32AsBf16:
      return write_floats(row, cols, true, to.floats(0) VEERY_CONTEXT_ARG);
    case ActivationKind::kBF16:
      return write_bf16(row, cols,
                        reinterpret_cast<VEERY_DEVICE uint16_t*>(to.at) VEERY_CONTEXT_ARG);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_QUANTIZE_X_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, quantize_x, QuantizeXParams, 1024)
