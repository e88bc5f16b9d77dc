// rows.h: embeddings, norms and elementwise ops, one thread block per row.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/packing/weight_format.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct EmbedParams {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Weight weight;
  Matrix out;
  float factor;
};

struct RmsNormParams {
  Run run;
  Matrix x, residual, out;
  Norm norm;
  int32_t groups;
  int32_t staged;  ///< 1: shared memory holds the row
};

struct LayerNormParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float *weight, *bias;  ///< bias may be nullptr
  float eps;
  int32_t groups;
  int32_t whole;   ///< 1: one weight per column of the row; 0: per column of a group
  int32_t staged;  ///< 1: shared memory holds the row
};

enum class Elementwise : int32_t { kAdd, kMul, kScale, kActivate, kSoftcap };

struct ElementwiseParams {
  Run run;
  Elementwise op;
  Matrix a, b, out;
  int32_t part;  ///< kMul: columns of `a` that share one element of `b`
  float factor;
  ActivationParams activate;
};

struct SelectRowsParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE int32_t* rows;
};

struct ArgmaxParams {
  Run run;
  Matrix x, out;  ///< out: i32
};

/// Turns the keys of GemmParams::argmax_keys into indices and clears them.
struct ArgmaxFinishParams {
  Run run;
  VEERY_DEVICE uint64_t* argmax_keys;
  Matrix out;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

// Element (row, k) of a weight in the arithmetic of decode.h: (d scale) q, minus (dmin min) or plus
// m.
template <WeightFormat kFormat>
VEERY_GPU float element(const VEERY_THREAD Weight& w, int64_t row, int k) {
  constexpr WeightFormatInfo f = weight_format_info(kFormat);
  constexpr UnitLayout p = unit_layout(kFormat);
  const VEERY_DEVICE uint8_t* panel = w.data + row / 16 * w.panel;
  const int n = static_cast<int>(row % 16), g = n % 8, high = n / 8;
  if constexpr (kFormat == kBF16) {
    const VEERY_DEVICE uint8_t* unit = panel + int64_t{k / 16} * p.bytes;
    return bf16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(
        unit + (4 * g + k % 16 / 4) * 16 + high * 8)[k % 4]);
  } else if constexpr (is_fma_format(kFormat)) {
    const VEERY_DEVICE uint8_t* at = panel + (int64_t{k / f.block} * 16 + n) * 16;
    if constexpr (kFormat == kF32)
      return reinterpret_cast<const VEERY_DEVICE float*>(at)[k % f.block];
    if constexpr (kFormat == kF8)
      return reinterpret_cast<const VEERY_DEVICE float*>(panel +
                                                         int64_t{w.cols} * 16)[k / 32 * 16 + n] *
             e4m3_to_float(at[k % f.block]);
    return f16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(at)[k % f.block]);
  } else {
    const VEERY_DEVICE uint8_t* unit = panel + int64_t{k / f.block} * p.bytes;
    const int inside = k % f.block, l = 4 * g + inside % 16 / 4, upper = inside % 32 / 16;
    int code;
    if constexpr (f.bits == 8) {
      const uint8_t byte =
          unit[inside / 32 * p.fragment + l * 16 + (2 * upper + high) * 4 + inside % 4];
      code = static_cast<int8_t>(byte);
    } else {
      const uint8_t byte = unit[inside / 32 * p.fragment + l * 8 + high * 4 + inside % 4];
      code = upper != 0 ? byte >> 4 : byte & 15;
      if constexpr (kFormat == kMXFP4 || kFormat == kNVFP4) code = mxfp4_value(code);
    }
    if constexpr (has_half_scales(kFormat))
      return half_scale(unit[p.d + 4 * g + 2 * upper + high]) * static_cast<float>(code);
    code -= f.less;
    const auto half_at = [&](int offset) {
      return f16_to_float(
          reinterpret_cast<const VEERY_DEVICE uint16_t*>(unit + offset)[2 * g + high]);
    };
    const float d = f.wide ? reinterpret_cast<const VEERY_DEVICE float*>(unit + p.d)[2 * g + high]
                           : half_at(p.d);
    if constexpr (f.block == 32) {
      const float y = d * static_cast<float>(code);
      if constexpr (f.minima && f.wide)
        return y + reinterpret_cast<const VEERY_DEVICE float*>(unit + p.m)[2 * g + high];
      return f.minima ? y + half_at(p.m) : y;
    } else {
      constexpr int kRowScales = 256 / f.sub;
      const int at = (2 * g + high) * kRowScales + inside / f.sub;
      const int scale = reinterpret_cast<const VEERY_DEVICE int8_t*>(unit + p.scales)[at];
      const float y = d * static_cast<float>(scale) * static_cast<float>(code);
      return f.minima ? y - half_at(p.m) * static_cast<float>(unit[p.minima + at]) : y;
    }
  }
}

VEERY_GPU float any_element(const VEERY_THREAD Weight& w, int64_t row, int k) {
  switch (w.format) {
    case kQ8: return element<kQ8>(w, row, k);
    case kQ8M: return element<kQ8M>(w, row, k);
    case kQ4: return element<kQ4>(w, row, k);
    case kQ4M: return element<kQ4M>(w, row, k);
    case kK4M: return element<kK4M>(w, row, k);
    case kK8M: return element<kK8M>(w, row, k);
    case kK8: return element<kK8>(w, row, k);
    case kK8M16: return element<kK8M16>(w, row, k);
    case kMXFP4: return element<kMXFP4>(w, row, k);
    case kQ4MW: return element<kQ4MW>(w, row, k);
    case kQ8MW: return element<kQ8MW>(w, row, k);
    case kNVFP4: return element<kNVFP4>(w, row, k);
    case kF32: return element<kF32>(w, row, k);
    case kF16: return element<kF16>(w, row, k);
    case kF8: return element<kF8>(w, row, k);
    default: return element<kBF16>(w, row, k);
  }
}

VEERY_GPU void embed(const VEERY_THREAD EmbedParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int64_t row = a.ids[r];
  for (int k = thread(); k < a.out.cols; k += threads())
    a.out.row(r)[k] = any_element(a.weight, row, k) * a.factor;
}

/// Each warp normalises some groups of a row; if the row is one group, all warps share it.
VEERY_GPU void rms_norm(const VEERY_THREAD RmsNormParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int n = a.out.cols / a.groups;
  const auto write = [&](int part, float inverse, int first, int step) {
    const int64_t at = int64_t{part} * n;
    const Row row = {a.x.row(r) + at, a.norm.weight, inverse};
    for (int i = first; i < n; i += step) {
      const float y = row.at(i);
      a.out.row(r)[at + i] = a.residual ? y + a.residual.row(r)[at + i] : y;
    }
  };
  if (a.groups == 1) {
    const Row row = load_row_with_norm(a.x.row(r), a.norm, n, a.staged != 0,
                                       reinterpret_cast<VEERY_SHARED float*>(shared_memory()),
                                       nullptr VEERY_CONTEXT_ARG);
    return write(0, row.inverse, thread(), threads());
  }
  for (int part = warp(); part < a.groups; part += warps())
    write(part, inverse_rms(a.x.row(r) + int64_t{part} * n, n, a.norm.eps), lane(), kWarp);
}

/// Shared memory: mean and 1 / sqrt(variance) of each group, then the row if it is staged. Each
/// warp computes the moments of some groups.
VEERY_GPU void layer_norm(const VEERY_THREAD LayerNormParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int n = a.out.cols / a.groups;
  auto* moments = reinterpret_cast<VEERY_SHARED Two<float>*>(shared_memory());
  const VEERY_DEVICE float* x = a.x.row(r);
  if (a.staged != 0) {
    auto* own = reinterpret_cast<VEERY_SHARED float*>(moments + a.groups);
    VEERY_UNROLL(4)
    for (int i = thread(); i < a.out.cols; i += threads()) own[i] = x[i];
    x = staged_pointer(own, x);
    sync_block();
  }
  for (int part = warp(); part < a.groups; part += warps()) {
    const Two<float> of = mean_and_inverse_std(x + int64_t{part} * n, n, a.eps);
    if (lane() == 0) moments[part].x = of.x, moments[part].y = of.y;
  }
  sync_block();
  for (int i = thread(); i < a.out.cols; i += threads()) {
    const Two<float> of = {moments[i / n].x, moments[i / n].y};
    const int at = a.whole != 0 ? i : i % n;
    const float y = (x[i] - of.x) * of.y * a.weight[at];
    a.out.row(r)[i] = a.bias != nullptr ? y + a.bias[at] : y;
  }
}

VEERY_GPU float apply_elementwise(const VEERY_THREAD ElementwiseParams& a, float x, float y) {
  switch (a.op) {
    case Elementwise::kAdd: return x + y;
    case Elementwise::kMul: return x * y;
    case Elementwise::kScale: return x * a.factor;
    case Elementwise::kActivate: return activated(x, a.activate);
    case Elementwise::kSoftcap: return a.factor * tanh_f32(x / a.factor);
  }
  return 0;
}
VEERY_GPU void elementwise(const VEERY_THREAD ElementwiseParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_y();
  if (r >= a.run.count(a.out.rows)) return;
  for (int k = block_x() * threads() + thread(); k < a.out.cols; k += blocks_x() * threads()) {
    const float y = a.b ? a.b.row(a.b.rows == 1 ? 0 : r)[k / a.part] : 0.0F;
    a.out.row(r)[k] = apply_elementwise(a, a.a.row(r)[k], y);
  }
}

VEERY_GPU void select_rows(const VEERY_THREAD SelectRowsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  for (int k = thread(); k < a.out.cols; k += threads()) a.out.row(r)[k] = a.x.row(a.rows[r])[k];
}

/// Returns the largest key of all threads of a block. `shared`: a key per warp.
VEERY_GPU uint64_t block_largest(uint64_t key, VEERY_SHARED uint64_t* shared VEERY_CONTEXT) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(key, mask);
    key = other > key ? other : key;
  }
  if (lane() == 0) shared[warp()] = key;
  sync_block();
  for (int i = 0; i < warps(); ++i) key = shared[i] > key ? shared[i] : key;
  return key;
}
VEERY_GPU void argmax(const VEERY_THREAD ArgmaxParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  uint64_t best = 0;
  for (int k = thread(); k < a.x.cols; k += threads()) {
    const uint64_t key = order_key(a.x.row(r)[k], k);
    best = key > best ? key : best;
  }
  best = block_largest(best,
                       reinterpret_cast<VEERY_SHARED uint64_t*>(shared_memory()) VEERY_CONTEXT_ARG);
  if (thread() == 0)
    reinterpret_cast<VEERY_DEVICE int32_t*>(a.out.row(r))[0] = order_key_index(best);
}

VEERY_GPU void argmax_finish(const VEERY_THREAD ArgmaxFinishParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.run.count(a.out.rows)) return;
  reinterpret_cast<VEERY_DEVICE int32_t*>(a.out.row(r))[0] = order_key_index(a.argmax_keys[r]);
  a.argmax_keys[r] = 0;
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ROWS_KERNELS(X)                                   \
  VEERY_GPU_SINGLE(X, kShared, embed, EmbedParams, 256)             \
  VEERY_GPU_SINGLE(X, kShared, rms_norm, RmsNormParams, 256)        \
  VEERY_GPU_SINGLE(X, kShared, layer_norm, LayerNormParams, 256)    \
  VEERY_GPU_SINGLE(X, kShared, elementwise, ElementwiseParams, 256) \
  VEERY_GPU_SINGLE(X, kShared, select_rows, SelectRowsParams, 256)  \
  VEERY_GPU_SINGLE(X, kShared, argmax, ArgmaxParams, 256)           \
  VEERY_GPU_SINGLE(X, kCuda, argmax_finish, ArgmaxFinishParams, 64)
