// experts.h: mixtures of experts, with the bits of kernels/cpu/moe. A pair is a row of x and one of
// the experts that its router chose. Pair r * used + i is row r with its i-th expert.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/expert_params.h"

namespace veery::gpu {

namespace key {

/// `rows`: pairs of a group, kEight or kThirtyTwo.
constexpr KernelKey experts_gemm(WeightFormat format, RowClass rows, bool gated) {
  return of(Family::kExperts, format, rows, gated);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// Returns e^x, computed in f64 (kernels/reference/moe.cc).
VEERY_GPU float exp_rounded(float x) {
  if (!(x == x)) return x;
  const float in = x > 89.0F ? 89.0F : x < -104.0F ? -104.0F : x;
  const int n = round_to_int(in * 1.44269504F);
  const Float64 r = (to_f64(in) - to_f64(n) * bits_to_double(0x3fe62e42fee00000)) -
                    to_f64(n) * bits_to_double(0x3dea39ef35793c76);  // ln 2 in two parts
  Float64 p = bits_to_double(0x3e5ae64567f544e4);  // 1 / 11!, then the other coefficients
  p = p * r + bits_to_double(0x3e927e4fb7789f5c);
  p = p * r + bits_to_double(0x3ec71de3a556c734);
  p = p * r + bits_to_double(0x3efa01a01a01a01a);
  p = p * r + bits_to_double(0x3f2a01a01a01a01a);
  p = p * r + bits_to_double(0x3f56c16c16c16c17);
  p = p * r + bits_to_double(0x3f81111111111111);
  p = p * r + bits_to_double(0x3fa5555555555555);
  p = p * r + bits_to_double(0x3fc5555555555555);
  p = p * r + bits_to_double(0x3fe0000000000000);
  p = p * r + bits_to_double(0x3ff0000000000000);
  p = p * r + bits_to_double(0x3ff0000000000000);
  return to_f32(p * bits_to_double(static_cast<int64_t>(n + 1023) << 52));
}

// Routing

VEERY_GPU float minus_infinity() { return bits_to_float(static_cast<int32_t>(0xff800000U)); }

/// Returns the lowest index of the largest of n numbers, in all lanes.
VEERY_GPU int argmax_of(const VEERY_SHARED float* x, int n) {
  uint64_t best = order_key(minus_infinity(), 0);
  for (int i = lane(); i < n; i += kWarp) {
    const uint64_t own = order_key(x[i], i);
    best = own > best ? own : best;
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(best, mask);
    best = other > best ? other : best;
  }
  return order_key_index(best);
}

/// Computes the scores of a row's experts: softmax or sigmoid of the router's outputs.
VEERY_GPU void expert_scores(const VEERY_THREAD RouteParams& a, const VEERY_SHARED float* scores,
                             VEERY_SHARED float* score, VEERY_SHARED float* one) {
  const int n = a.scores.cols;
  if (a.sigmoid != 0) {
    for (int e = lane(); e < n; e += kWarp) score[e] = 1.0F / (1.0F + exp_rounded(-scores[e]));
    return sync_warp();
  }
  const float maximum = scores[argmax_of(scores, n)];
  for (int e = lane(); e < n; e += kWarp) score[e] = exp_rounded(scores[e] - maximum);
  sync_warp();
  if (lane() == 0) {
    Float64 sum = to_f64(0);
    VEERY_UNROLL(8)
    for (int e = 0; e < n; ++e) sum = sum + to_f64(score[e]);
    *one = to_f32(to_f64(1) / sum);
  }
  sync_warp();
  for (int e = lane(); e < n; e += kWarp) score[e] = score[e] * *one;
  sync_warp();
}

/// Excludes the experts of all groups except the best ones. A lane has a group. `of_group`: shared
/// memory for the scores of the groups.
VEERY_GPU void keep_best_groups(const VEERY_THREAD RouteParams& a, VEERY_SHARED float* selection,
                                VEERY_SHARED float* group_score) {
  const int size = a.scores.cols / a.groups;
  for (int g = lane(); g < a.groups; g += kWarp) {
    float sum = 0, last = bits_to_float(0x7f800000);
    int same = 0;  // chosen groups among those whose score equals the last one's
    for (int i = 0; i < a.group_best; ++i) {
      float best = minus_infinity();
      int equal = 0;
      for (int e = 0; e < size; ++e) {
        const float x = selection[g * size + e];
        equal += x == last ? 1 : 0;
        if (x < last) best = max_f32(best, x);
      }
      if (same < equal)
        best = last, ++same;
      else
        same = 1;
      sum = sum + best;
      last = best;
    }
    group_score[g] = sum;
  }
  sync_warp();
  for (int kept = 0; kept < a.groups_used; ++kept) {
    const int best = argmax_of(group_score, a.groups);
    sync_warp();
    if (lane() == 0) group_score[best] = minus_infinity();
    sync_warp();
  }
  for (int e = lane(); e < a.scores.cols; e += kWarp)
    if (group_score[e / size] != minus_infinity()) selection[e] = minus_infinity();
  sync_warp();
}

/// Routing with RouteAttr::jitter, by one lane, because models with it have few experts. `left`:
/// shared memory for a score per expert.
VEERY_GPU void route_jitter(const VEERY_THREAD RouteParams& a, const VEERY_SHARED float* scores,
                            VEERY_SHARED float* left, VEERY_DEVICE float* gates) {
  const int n = a.scores.cols;
  for (int e = lane(); e < n; e += kWarp) left[e] = scores[e], gates[e] = 0;
  sync_warp();
  for (int i = 0; i < a.used; ++i) {
    const int best = argmax_of(left, n);
    sync_warp();
    if (lane() == 0) {
      const float maximum = left[best];
      Float64 sum = to_f64(0);
      for (int e = 0; e < n; ++e) {
        const float scale = magnitude(left[e]) < maximum ? maximum : magnitude(left[e]);
        const bool far = (maximum - left[e]) / scale > 2 * a.jitter;
        if (left[e] != minus_infinity() && !far) sum = sum + to_f64(exp_rounded(left[e] - maximum));
      }
      gates[best] = to_f32(to_f64(1) / sum);
      left[best] = minus_infinity();
    }
    sync_warp();
  }
}

/// One warp per row. Shared memory: 4 numbers per expert, and one more.
VEERY_GPU void route(const VEERY_THREAD RouteParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.scores.rows)) return;
  const int n = a.scores.cols;
  auto* score = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
  VEERY_SHARED float *selection = score + n, *own = selection + n, *group_score = own + n,
                     *one = group_score + n;
  VEERY_DEVICE float* gates = a.out.row(r);
  for (int e = lane(); e < n; e += kWarp) own[e] = a.scores.row(r)[e];
  sync_warp();
  if (a.jitter > 0) return route_jitter(a, own, score, gates);
  expert_scores(a, own, score, one);
  for (int e = lane(); e < n; e += kWarp) {
    selection[e] = score[e] + (a.bias != nullptr ? a.bias[e] : 0.0F);
    own[e] = 0;
  }
  sync_warp();
  if (a.groups > 1) keep_best_groups(a, selection, group_score);
  float sum = 0;
  for (int i = 0; i < a.used; ++i) {
    const int e = argmax_of(selection, n);
    sync_warp();
    if (lane() == 0) selection[e] = minus_infinity(), own[e] = score[e];
    sum = sum + score[e];
    sync_warp();
  }
  const float factor = a.normalise != 0 ? a.scale / (sum < 1e-20F ? 1e-20F : sum) : a.scale;
  for (int e = lane(); e < n; e += kWarp) gates[e] = own[e] * factor;
}

// Pairs, and groups of pairs that share an expert

/// Writes the pairs of a row, by a warp. If the row chose fewer experts, the remaining pairs have
/// expert 0 and gate 0.
VEERY_GPU void pick_row(const VEERY_THREAD ExpertPairParams& a, int64_t r) {
  const VEERY_DEVICE float* gates = a.gates.row(r);
  const int64_t first = r * a.used;
  int found = 0;
  for (int base = 0; base < a.experts && found < a.used; base += kWarp) {
    const int e = base + lane();
    const float gate = e < a.experts ? gates[e] : 0.0F;
    const uint32_t chosen = ballot(gate != 0);
    const int at = found + bit_count(chosen & ((1U << lane()) - 1));
    if (gate != 0 && at < a.used) a.pairs.expert[first + at] = e, a.pairs.gate[first + at] = gate;
    found += bit_count(chosen);
  }
  for (int i = found + lane(); i < a.used; i += kWarp)
    a.pairs.expert[first + i] = 0, a.pairs.gate[first + i] = 0;
}
VEERY_GPU void pick_experts(const VEERY_THREAD ExpertPairParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = int64_t{block_x()} * warps() + warp();
  if (r < a.run.count(a.gates.rows)) pick_row(a, r);
}

/// The pairs [begin, end) of each warp of a thread block.
struct PairShare {
  int begin, end;
};
VEERY_GPU PairShare share_of(int pairs VEERY_CONTEXT) {
  const int each = (pairs + warps() * kWarp - 1) / (warps() * kWarp) * kWarp;
  const int begin = warp() * each;
  return {begin, begin + each < pairs ? begin + each : pairs};
}
/// Returns the number of the warp's pairs that have the expert.
VEERY_GPU int count_pairs(const VEERY_THREAD Pairs& pairs, const VEERY_THREAD PairShare& share,
                          int expert) {
  int own = 0;
  VEERY_UNROLL(8)
  for (int i = share.begin + lane(); i < share.end; i += kWarp)
    own += pairs.expert[i] == expert ? 1 : 0;
  return warp_sum(own);
}

/// One thread block per expert. Shared memory: a number per warp.
VEERY_GPU void count_experts(const VEERY_THREAD ExpertPairParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  auto* count = reinterpret_cast<VEERY_SHARED int32_t*>(shared_memory());
  const int pairs = static_cast<int>(a.run.count(a.gates.rows)) * a.used;
  const int own = count_pairs(a.pairs, share_of(pairs VEERY_CONTEXT_ARG), block_x());
  if (lane() == 0) count[warp()] = own;
  sync_block();
  if (thread() != 0) return;
  int all = 0;
  for (int w = 0; w < warps(); ++w) all += count[w];
  a.pairs.count[block_x()] = all;
}

/// One thread block per expert, after count_experts(): writes the groups of the expert and the
/// order of its pairs.
VEERY_GPU void group_experts(const VEERY_THREAD ExpertPairParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  auto* count = reinterpret_cast<VEERY_SHARED int32_t*>(shared_memory());
  const int expert = block_x(), max_pairs = a.pairs.max_pairs;
  const PairShare share =
      share_of(static_cast<int>(a.run.count(a.gates.rows)) * a.used VEERY_CONTEXT_ARG);
  const int own = count_pairs(a.pairs, share, expert);
  if (lane() == 0) count[warp()] = own;
  int begin = 0, group = 0;
  for (int e = lane(); e < expert; e += kWarp)
    begin += a.pairs.count[e], group += (a.pairs.count[e] + max_pairs - 1) / max_pairs;
  begin = warp_sum(begin), group = warp_sum(group);
  sync_block();
  const int all = a.pairs.count[expert], groups = (all + max_pairs - 1) / max_pairs;
  if (expert == a.experts - 1 && thread() == 0) *a.pairs.groups = group + groups;
  for (int i = thread(); i < groups; i += threads()) {
    const int left = all - i * max_pairs;
    VEERY_DEVICE PairGroup& to = a.pairs.group[group + i];
    to.expert = expert, to.first = begin + i * max_pairs,
    to.count = left < max_pairs ? left : max_pairs, to.unused = 0;
  }
  int at = begin;
  for (int w = 0; w < warp(); ++w) at += count[w];
  for (int base = share.begin; base < share.end; base += kWarp) {
    const int i = base + lane();
    const bool selected = i < share.end && a.pairs.expert[i] == expert;
    const uint32_t those = ballot(selected);
    if (selected) a.pairs.order[at + bit_count(those & ((1U << lane()) - 1))] = i;
    at += bit_count(those);
  }
}

// Products

/// Stores one output of a pair: the gated product of gate and up, or the activated product with one
/// weight (up without a gate, or down).
VEERY_GPU void store_pair(const VEERY_THREAD ExpertGemmParams& a, int expert, int pair, int n,
                          float y, float up) {
  const int64_t at = int64_t{expert} * a.weight[0].rows + n;
  y = y + (a.bias[0] != nullptr ? a.bias[0][at] : 0.0F);
  if (a.gated == 0) {
    if (a.gate_input != 0) y = y * a.pairs.gate[pair];
    a.out[int64_t{pair} * a.weight[0].rows + n] = activated(y, a.activation);
    return;
  }
  up = up + (a.bias[1] != nullptr ? a.bias[1][at] : 0.0F);
  if (a.gate_input != 0) y = y * a.pairs.gate[pair], up = up * a.pairs.gate[pair];
  float h;
  if (a.limit > 0) {
    y = min_f32(y, a.limit);
    up = max_f32(min_f32(up, a.limit), -a.limit);
    h = y / (1.0F + exp_f32(negative(a.alpha * y))) * (up + 1.0F);
  } else {
    h = activated(y, a.activation) * up;
  }
  a.out[int64_t{pair} * a.weight[0].rows + n] = h;
}

/// Weight `i` of an expert.
VEERY_GPU Weight expert_weight(const VEERY_THREAD ExpertGemmParams& a, int i, int expert) {
  Weight w = a.weight[i];
  w.data += int64_t{expert} * panel_count(w) * w.panel;
  return w;
}

VEERY_GPU PairGroup group_at(const VEERY_THREAD Pairs& pairs, int i) {
  const auto words = load<Four<int32_t>>(pairs.group + i);
  return {words.x, words.y, words.z, words.w};
}

/// A thread block multiplies a group of up to 8 kGroups pairs; each of its warps multiplies one
/// panel.
template <WeightFormat kFormat, int kGroups, bool kGated>
VEERY_GPU void experts_gemm(const VEERY_THREAD ExpertGemmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int panel = block_x() * warps() + warp();
  if (block_y() >= *a.pairs.groups || panel >= panel_count(a.weight[0])) return;
  const PairGroup group = group_at(a.pairs, block_y());
  const VEERY_DEVICE int32_t* order = a.pairs.order + group.first;
  const auto row_of = [&](int r) {
    return order[r < group.count ? r : group.count - 1] / a.pairs_per_row;
  };
  using Product = GemmDirect<kFormat, 1, kGroups>;
  const Weight weight = expert_weight(a, 0, group.expert);
  Product product(a.act, weight, panel, row_of);
  product.multiply();
  const auto store = [&](const VEERY_THREAD Product& up) {
    const int g = lane() / 4, t = lane() % 4;
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      const int output = panel * 16 + g + k / 2 * 8, r = 8 * n + 2 * t + k % 2;
      if (output < a.weight[0].rows && r < group.count)
        store_pair(a, group.expert, order[r], output, product.sum[0][n][k], up.sum[0][n][k]);
    }
  };
  if constexpr (kGated) {
    const Weight other = expert_weight(a, 1, group.expert);
    Product up(a.act, other, panel, row_of);
    up.multiply();
    store(up);
  } else {
    store(product);
  }
}

/// Adds the outputs of a row's experts in their order, then the residual.
VEERY_GPU void combine_experts(const VEERY_THREAD CombineExpertsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_y();
  if (r >= a.run.count(a.out.rows)) return;
  const int n = a.out.cols;
  for (int k = block_x() * threads() + thread(); k < n; k += blocks_x() * threads()) {
    float y = 0;
    VEERY_UNROLL(4)
    for (int64_t pair = r * a.used; pair < (r + 1) * a.used; ++pair) {
      const float gate = a.pairs.gate[pair];
      if (gate != 0) y = fma(a.gate_input != 0 ? 1.0F : gate, a.products[pair * n + k], y);
    }
    a.out.row(r)[k] = a.residual ? y + a.residual.row(r)[k] : y;
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_EXPERTS_GEMM(X, set, name, format)                                          \
  X(set, experts_gemm_8_##name, ExpertGemmParams, 128, 0,                                     \
    key::experts_gemm(format, RowClass::kEight, false), (experts_gemm<format, 1, false>))     \
  X(set, experts_gemm_8_gated_##name, ExpertGemmParams, 128, 0,                               \
    key::experts_gemm(format, RowClass::kEight, true), (experts_gemm<format, 1, true>))       \
  X(set, experts_gemm_32_##name, ExpertGemmParams, 128, 0,                                    \
    key::experts_gemm(format, RowClass::kThirtyTwo, false), (experts_gemm<format, 4, false>)) \
  X(set, experts_gemm_32_gated_##name, ExpertGemmParams, 128, 0,                              \
    key::experts_gemm(format, RowClass::kThirtyTwo, true), (experts_gemm<format, 4, true>))
#define VEERY_GPU_EXPERTS_KERNELS(X)                                       \
  VEERY_GPU_SINGLE(X, kShared, route, RouteParams, 32)                     \
  VEERY_GPU_SINGLE(X, kShared, pick_experts, ExpertPairParams, 256)        \
  VEERY_GPU_SINGLE(X, kShared, count_experts, ExpertPairParams, 256)       \
  VEERY_GPU_SINGLE(X, kShared, group_experts, ExpertPairParams, 256)       \
  VEERY_GPU_SINGLE(X, kShared, combine_experts, CombineExpertsParams, 256) \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_EXPERTS_GEMM, X, kShared)             \
  VEERY_GPU_EXPERTS_GEMM(X, kCuda, bf16, kBF16)
