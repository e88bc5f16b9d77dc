// rope_heads.h: rotary position embeddings of data in device memory, forward and backward
// (docs/rope.md).
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// veery::RopeHeads in f32 or bf16.
struct RopeData {
  VEERY_DEVICE uint8_t* data;
  int64_t batch_stride, token_stride, head_stride;  ///< elements
};

struct RopeHeadsParams {
  RopeData in, out;                       ///< `out` is `in`, or does not overlap it
  const VEERY_DEVICE Float64* frequency;  ///< [pairs] radians per position
  const VEERY_DEVICE int32_t* axis;       ///< [pairs]
  const VEERY_DEVICE int32_t* positions;
  int64_t axis_offset[4];  ///< positions of an axis: [batch * tokens] from here on
  Float64 cos_factor, sin_factor;
  int32_t tokens, heads, head_dim, pairs, step, distance;
  int32_t is_bf16;
  int32_t heads_per_block;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/rope_angles.h"

namespace veery::gpu {

// The operations are those of kernels/cpu/tensor/rope.cc.
VEERY_GPU SinCos sin_cos_of_product(Float64 position, Float64 frequency) {
  const Float64 x = position * frequency;
  const Float64 rest = fma(position, frequency, -x);
  const Float64 round = coefficient(0x4338000000000000U);                // 3 * 2^51
  const Float64 shifted = x * coefficient(0x3fe45f306dc9c883U) + round;  // 2 / pi
  const Float64 n = shifted - round;
  const int64_t quadrant = float_to_bits(shifted);
  Float64 r = fma(n, coefficient(0xbff921fb54442d18U), x);  // -pi / 2 in two parts
  r = fma(n, coefficient(0xbc91a62633145c07U), r) + rest;
  const Float64 z = r * r;
  Float64 s = fma(z, coefficient(0xbd6ae7f3e733b81fU), coefficient(0x3de6124613a86d09U));
  s = fma(z, s, coefficient(0xbe5ae64567f544e4U));  // -1 / 11!
  s = fma(z, s, coefficient(0x3ec71de3a556c734U));
  s = fma(z, s, coefficient(0xbf2a01a01a01a01aU));  // -1 / 7!
  s = fma(z, s, coefficient(0x3f81111111111111U));
  s = fma(z, s, coefficient(0xbfc5555555555555U));  // -1 / 3!
  s = fma(z * r, s, r);
  Float64 c = fma(z, coefficient(0x3d2ae7f3e733b81fU), coefficient(0xbda93974a8c07c9dU));
  c = fma(z, c, coefficient(0x3e21eed8eff8d898U));  // 1 / 12!
  c = fma(z, c, coefficient(0xbe927e4fb7789f5cU));
  c = fma(z, c, coefficient(0x3efa01a01a01a01aU));  // 1 / 8!
  c = fma(z, c, coefficient(0xbf56c16c16c16c17U));
  c = fma(z, c, coefficient(0x3fa5555555555555U));  // 1 / 4!
  c = fma(z, c, coefficient(0xbfe0000000000000U));
  c = fma(z, c, coefficient(0x3ff0000000000000U));
  const Float64 first = (quadrant & 1) != 0 ? c : s;
  const Float64 second = (quadrant & 1) != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}

VEERY_GPU float rope_element(const VEERY_THREAD RopeHeadsParams& a, int64_t at) {
  if (a.is_bf16 != 0)
    return bf16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(a.in.data)[at]);
  return reinterpret_cast<const VEERY_DEVICE float*>(a.in.data)[at];
}
VEERY_GPU void set_rope_element(const VEERY_THREAD RopeHeadsParams& a, int64_t at, float value) {
  if (a.is_bf16 != 0)
    reinterpret_cast<VEERY_DEVICE uint16_t*>(a.out.data)[at] = float_to_bf16(value);
  else
    reinterpret_cast<VEERY_DEVICE float*>(a.out.data)[at] = value;
}

/// A thread block per token and group of heads; a thread has the same pairs of all these heads.
VEERY_GPU void rope_heads(const VEERY_THREAD RopeHeadsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t row = block_x(), batch = row / a.tokens, token = row % a.tokens;
  const int first_head = block_y() * a.heads_per_block;
  const int end = first_head + a.heads_per_block, last_head = end < a.heads ? end : a.heads;
  const int64_t from = batch * a.in.batch_stride + token * a.in.token_stride;
  const int64_t to = batch * a.out.batch_stride + token * a.out.token_stride;
  for (int i = thread(); i < a.pairs; i += threads()) {
    const int32_t position = a.positions[a.axis_offset[a.axis[i]] + row];
    const SinCos at = sin_cos_of_product(to_f64(position), load_f64(a.frequency + i));
    const Float64 cos = at.cos * a.cos_factor, sin = at.sin * a.sin_factor;
    const int64_t first = int64_t{i} * a.step, second = first + a.distance;
    for (int h = first_head; h < last_head; ++h) {
      const int64_t in = from + h * a.in.head_stride, out = to + h * a.out.head_stride;
      const Float64 x = to_f64(rope_element(a, in + first));
      const Float64 y = to_f64(rope_element(a, in + second));
      set_rope_element(a, out + first, to_f32(x * cos - y * sin));
      set_rope_element(a, out + second, to_f32(x * sin + y * cos));
    }
  }
  // The dimensions between the pairs and after them.
  const int between = a.distance - a.pairs;
  for (int i = thread(); i < a.head_dim - 2 * a.pairs; i += threads()) {
    const int dim = i < between ? a.pairs + i : 2 * a.pairs + i;
    for (int h = first_head; h < last_head; ++h)
      set_rope_element(a, to + h * a.out.head_stride + dim,
                       rope_element(a, from + h * a.in.head_stride + dim));
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ROPE_HEADS_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, rope_heads, RopeHeadsParams, 128)
