// qkv_rope_rows.h: qkv_rope() for many rows, with the same numbers: heads of 128 that are rotated
// as a whole and have no norm, bf16 caches.
#pragma once

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/rope.h"

namespace veery::gpu {

/// A thread block processes a row, a warp one head at a time. A lane has 4 elements that are
/// rotated by two angles: neighbours, or two in each half of the head.
class QkvRow {
 public:
  VEERY_GPU QkvRow(const QkvRopeParams& params, int64_t row)
      : a_(params),
        row_(row),
        first_(a_.interleaved != 0 ? 4 * lane() : 2 * lane()),
        second_(a_.interleaved != 0 ? first_ + 2 : first_ + a_.pairs) {
    const auto angles = load<Four<float>>(a_.angles.row(row) + 4 * lane());
    cos_[0] = angles.x, sin_[0] = angles.y, cos_[1] = angles.z, sin_[1] = angles.w;
    position_ = a_.run.position(row);
    sequence_ = a_.run.spans[a_.run.span_of[row]].sequence;
  }

  VEERY_GPU void write_head(int head) const {
    const float* x = a_.qkv.row(row_) + head * a_.head_dim;
    const auto low = load<Two<float>>(x + first_), high = load<Two<float>>(x + second_);
    float v[4] = {low.x, low.y, high.x, high.y};
    const int key = head - a_.heads, value = key - a_.kv_heads;
    if (value >= 0) return store_value(value, v);
    rotate(v);
    if (key >= 0) return store_key(key, v);
    float* out = a_.out.row(row_) + head * a_.head_dim;
    *reinterpret_cast<Two<float>*>(out + first_) = {v[0], v[1]};
    *reinterpret_cast<Two<float>*>(out + second_) = {v[2], v[3]};
  }

 private:
  VEERY_GPU int element(int i) const { return i < 2 ? first_ + i : second_ + i - 2; }
  VEERY_GPU void rotate(float& x, float& y, int pair) const {
    const float a = x, b = y;
    x = a * cos_[pair] - b * sin_[pair];
    y = a * sin_[pair] + b * cos_[pair];
  }
  VEERY_GPU void rotate(float (&v)[4]) const {
    if (a_.interleaved != 0) {
      rotate(v[0], v[1], 0);
      rotate(v[2], v[3], 1);
    } else {
      rotate(v[0], v[2], 0);
      rotate(v[1], v[3], 1);
    }
  }
  VEERY_GPU void store_key(int head, const float (&v)[4]) const {
    auto* to = reinterpret_cast<uint16_t*>(page_of(a_.keys, a_.run, sequence_, position_));
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i)
      to[key_offset(a_.keys, head, position_, element(i))] = float_to_bf16(v[i]);
  }
  VEERY_GPU void store_value(int head, const float (&v)[4]) const {
    auto* to = reinterpret_cast<uint16_t*>(page_of(a_.values, a_.run, sequence_, position_)) +
               value_offset(a_.values, head, position_, 0);
    *reinterpret_cast<uint32_t*>(to + first_) = pack_bf16x2(v[0], v[1]);
    *reinterpret_cast<uint32_t*>(to + second_) = pack_bf16x2(v[2], v[3]);
  }

  const QkvRopeParams& a_;
  int64_t row_, position_;
  int first_, second_;  ///< the lane's elements: two from each of these on
  int sequence_;
  float cos_[2], sin_[2];
};

VEERY_GPU void qkv_rope_rows(const QkvRopeParams& a) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.qkv.rows)) return;
  const QkvRow row(a, r);
  VEERY_UNROLL(2)
  for (int head = warp(); head < a.heads + 2 * a.kv_heads; head += warps()) row.write_head(head);
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_QKV_ROPE_ROWS_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kCuda, qkv_rope_rows, QkvRopeParams, 256)
