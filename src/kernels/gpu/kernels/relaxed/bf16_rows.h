// bf16_rows.h: the kernels before and after the bf16 products of cuBLASLt.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// Rounds rows of x to bf16, after the norm if there is one.
struct RowsToBf16Params {
  Run run;
  Matrix x;
  Norm norm;
  VEERY_DEVICE uint16_t* out;
  int64_t stride;  ///< elements of a row of `out`
};

/// The epilogue of a gated product: activate(gate + bias[0]) * (up + bias[1]) * scale + residual. A
/// row of `products` has the bf16 gates, then the ups.
struct GatedEpilogueParams {
  Run run;
  const VEERY_DEVICE uint16_t* products;
  const VEERY_DEVICE float* bias[2];  ///< or nullptr
  ActivationParams gate;
  float scale;
  Matrix residual, out;
  int32_t rounded;  ///< 1: out is bf16 with rows of out.stride / 2 floats
};

/// The epilogue activate(y + bias) * scale + residual, in place. The outputs of weight i begin at
/// column[i].
struct EpilogueParams {
  VEERY_STATIC int kWeights = 3;
  Run run;
  const VEERY_DEVICE float* bias[kWeights];  ///< or nullptr
  int32_t column[kWeights];
  int32_t weights;
  ActivationParams gate;
  float scale;
  Matrix residual, y;
};

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/rows.h"

namespace veery::gpu {

/// Returns the sum over the threads of a block. `shared`: a float per warp.
VEERY_GPU float block_sum(float x, float* shared) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + shuffle_xor(x, mask);
  if (lane() == 0) shared[warp()] = x;
  sync_block();
  float all = 0;
  for (int i = 0; i < warps(); ++i) all = all + shared[i];
  return all;
}

/// One thread block per row, whose columns are a multiple of 4.
VEERY_GPU void rows_to_bf16(const RowsToBf16Params& a) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.x.rows)) return;
  const int cols = a.x.cols;
  Row row = {a.x.row(r), nullptr, 1};
  if (a.norm.weight != nullptr) {
    float squares = 0;
    VEERY_UNROLL(4)
    for (int k = 4 * thread(); k < cols; k += 4 * threads()) {
      float v[4];
      four_of(row, k, v);
      squares = fma(v[0], v[0], fma(v[1], v[1], fma(v[2], v[2], fma(v[3], v[3], squares))));
    }
    squares = block_sum(squares, reinterpret_cast<float*>(shared_memory()));
    row.weight = a.norm.weight;
    row.inverse = 1.0F / square_root(squares / static_cast<float>(cols) + a.norm.eps);
  }
  VEERY_UNROLL(4)
  for (int k = 4 * thread(); k < cols; k += 4 * threads()) {
    float v[4];
    four_of(row, k, v);
    *reinterpret_cast<Two<uint32_t>*>(a.out + r * a.stride + k) = {pack_bf16x2(v[0], v[1]),
                                                                   pack_bf16x2(v[2], v[3])};
  }
}

VEERY_GPU float upper_of(uint32_t pair) {
  return bits_to_float(static_cast<int32_t>(pair & 0xffff0000U));
}
VEERY_GPU float lower_of(uint32_t pair) { return bits_to_float(static_cast<int32_t>(pair << 16)); }

/// activated() with a fast approximation of silu.
VEERY_GPU float approx_activated(float x, const ActivationParams& a) {
  constexpr float kLog2E = 1.44269504F;
  if (a.kind != 1) return activated(x, a);
  return x < -87.0F ? 0.0F : approx_divide(x, 1.0F + approx_exp2(negative(kLog2E) * x));
}

/// A thread has 4 outputs; the number of outputs is a multiple of 4.
VEERY_GPU void gated_epilogue(const GatedEpilogueParams& a) {
  wait_for_dependencies();
  const int64_t r = block_y();
  const int n = a.out.cols, k = 4 * (block_x() * threads() + thread());
  if (r >= a.run.count(a.out.rows) || k >= n) return;
  const uint16_t* products = a.products + r * 2 * n + k;
  const auto gates = load<Two<uint32_t>>(products), ups = load<Two<uint32_t>>(products + n);
  const float gate[4] = {lower_of(gates.x), upper_of(gates.x), lower_of(gates.y),
                         upper_of(gates.y)};
  const float up[4] = {lower_of(ups.x), upper_of(ups.x), lower_of(ups.y), upper_of(ups.y)};
  float y[4];
  VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const float of_gate = a.bias[0] != nullptr ? gate[i] + a.bias[0][k + i] : gate[i];
    const float of_up = a.bias[1] != nullptr ? up[i] + a.bias[1][k + i] : up[i];
    y[i] = approx_activated(of_gate, a.gate) * of_up * a.scale;
    if (a.residual) y[i] = y[i] + a.residual.row(r)[k + i];
  }
  float* out = a.out.row(r);
  if (a.rounded != 0)
    *reinterpret_cast<Two<uint32_t>*>(reinterpret_cast<uint16_t*>(out) + k) = {
        pack_bf16x2(y[0], y[1]), pack_bf16x2(y[2], y[3])};
  else
    *reinterpret_cast<Four<float>*>(out + k) = {y[0], y[1], y[2], y[3]};
}

/// A thread has one output.
VEERY_GPU void epilogue_rows(const EpilogueParams& a) {
  wait_for_dependencies();
  const int64_t r = block_y();
  const int k = block_x() * threads() + thread();
  if (r >= a.run.count(a.y.rows) || k >= a.y.cols) return;
  int i = 0;
  while (i + 1 < a.weights && k >= a.column[i + 1]) ++i;
  float y = a.y.row(r)[k];
  if (a.bias[i] != nullptr) y = y + a.bias[i][k - a.column[i]];
  y = activated(y, a.gate) * a.scale;
  if (a.residual) y = y + a.residual.row(r)[k];
  a.y.row(r)[k] = y;
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_BF16_ROWS_KERNELS(X)                                    \
  VEERY_GPU_SINGLE(X, kRelaxed, rows_to_bf16, RowsToBf16Params, 256)      \
  VEERY_GPU_SINGLE(X, kRelaxed, gated_epilogue, GatedEpilogueParams, 256) \
  VEERY_GPU_SINGLE(X, kRelaxed, epilogue_rows, EpilogueParams, 256)
