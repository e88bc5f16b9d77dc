// reference.h: the reference kernels, one table per family. They are plain C++ that follows the
// formulas of the ops, mostly with f64 sums, and serve as the oracle of every fast kernel.
#pragma once
#include "kernels/common/table.h"

namespace veery {

KernelRows reference_elementwise();
KernelRows reference_cast();
KernelRows reference_rows();  ///< embed, select_rows, argmax and their backward kernels
KernelRows reference_linear();
KernelRows reference_rms_norm();
KernelRows reference_layer_norm();
KernelRows reference_heads();  ///< head_linear, concat
KernelRows reference_route();  ///< route and its derivatives
KernelRows reference_moe();
KernelRows reference_rope();  ///< rope_angles, rope, position_scale, cache_write, qkv_rope
KernelRows reference_attend();
KernelRows reference_choose_positions();
KernelRows reference_recurrence();  ///< scan, conv1d
KernelRows reference_slstm();       ///< slstm, linear_heads
KernelRows reference_scan_chunks();
KernelRows reference_cross_entropy();
// Derivatives.
KernelRows reference_attend_back();
KernelRows reference_attend_tangent();
KernelRows reference_heads_back();  ///< of head_linear and linear_heads
KernelRows reference_moe_back();
KernelRows reference_norm_tangent();
KernelRows reference_recurrence_back();
KernelRows reference_rope_back();
KernelRows reference_slstm_back();
KernelRows reference_top_k_back();

/// Returns all tables above.
std::span<const KernelRows> reference_tables();

// Inner loops that several families share.

/// Returns 1 / sqrt(mean(x^2) + eps).
float reference_inverse_rms(const float* x, int64_t n, float eps);
/// out = x / rms(x) * weight; `out` may be `x`.
void reference_norm(const float* x, const float* weight, int64_t n, float eps, float* out);
/// Returns the sum of a[i] * b[i], accumulated in eight interleaved partial sums.
float reference_dot(const float* a, const float* b, int64_t n);
/// y += a * x.
void reference_axpy(float a, const float* x, int64_t n, float* y);

}  // namespace veery
