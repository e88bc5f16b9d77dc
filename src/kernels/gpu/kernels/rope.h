// rope.h: rotary position embeddings (RoPE), and the fused op that rotates joined queries and keys
// and writes keys and values to the KV cache.
#pragma once
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

struct RopeParams {
  Run run;
  Matrix x, angles, out;
  int32_t head_dim, pairs, begin, interleaved;
  float sign;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/kv_cache.h"
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

struct Rotation {
  int begin, pairs;
  bool interleaved;
  float sign;
};
/// Returns element k of a head after rotation; x(k) are the elements before it.
template <typename Element>
VEERY_GPU float rotated(const VEERY_THREAD Element& x, int k, const VEERY_DEVICE float* angles,
                        const VEERY_THREAD Rotation& rotation) {
  const int inside = k - rotation.begin;
  if (inside < 0 || inside >= 2 * rotation.pairs) return x(k);
  const int pair = rotation.interleaved ? inside / 2 : inside % rotation.pairs;
  const bool second = rotation.interleaved ? inside % 2 != 0 : inside >= rotation.pairs;
  const float cos = angles[2 * pair];
  const float sin = angles[2 * pair + 1] * rotation.sign;
  const float a = x(rotation.begin + (rotation.interleaved ? 2 * pair : pair));
  const float b = x(rotation.begin + (rotation.interleaved ? 2 * pair + 1 : pair + rotation.pairs));
  return second ? a * sin + b * cos : a * cos - b * sin;
}
VEERY_GPU void rope(const VEERY_THREAD RopeParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const Rotation rotation = {a.begin, a.pairs, a.interleaved != 0, a.sign};
  for (int c = thread(); c < a.out.cols; c += threads()) {
    const VEERY_DEVICE float* head = a.x.row(r) + c / a.head_dim * a.head_dim;
    a.out.row(r)[c] =
        rotated([&](int k) { return head[k]; }, c % a.head_dim, a.angles.row(r), rotation);
  }
}

/// One head of row r, processed by a warp. Heads are counted over queries, then keys, then values.
class QkvHead {
 public:
  VEERY_GPU QkvHead(const VEERY_THREAD QkvRopeParams& params, int64_t r, int head)
      : a_(params), r_(r), head_(head) {
    const bool key = head >= a_.heads && !is_value();
    kv_ = is_value() ? head - a_.heads - a_.kv_heads : head - a_.heads;
    row_ = {a_.qkv.row(r) + int64_t{head} * a_.head_dim,
            is_value() ? nullptr
            : key      ? a_.key_norm
                       : a_.query_norm,
            1};
    if (row_.weight != nullptr) row_.inverse = inverse_rms(row_.x, a_.head_dim, a_.eps);
  }
  VEERY_GPU bool is_value() const { return head_ >= a_.heads + a_.kv_heads; }
  /// Finds the page for keys and values; called before store().
  VEERY_GPU void find_page() {
    if (is_query()) return;
    const int64_t position = a_.run.position(r_);
    const int sequence = a_.run.spans[a_.run.span_of[r_]].sequence;
    set_page(position, page_of(cache(), a_.run, sequence, position));
  }
  VEERY_GPU void set_page(int64_t position, VEERY_DEVICE uint8_t* page) {
    position_ = position, page_ = page;
  }
  VEERY_GPU bool is_query() const { return kv_ < 0; }
  /// Element i, normalised and rotated.
  VEERY_GPU float at(int i) const {
    if (is_value()) return row_.x[i];
    const Rotation rotation = {0, a_.pairs, a_.interleaved != 0, 1};
    return rotated([&](int k) { return row_.at(k); }, i, a_.angles.row(r_), rotation);
  }
  /// Stores element i as a query, or in the cache. Called by all lanes of a warp that have an
  /// element.
  VEERY_GPU void store(int i, float v) const {
    if (is_query()) return void(a_.out.row(r_)[head_ * a_.head_dim + i] = v);
    store_element(cache(), page_, !is_value(), kv_, position_, i, v,
                  is_value() ? a_.value_bytes : a_.bytes);
  }

  /// Returns the address of element i of a key or a value in a cache of T.
  template <typename T>
  VEERY_GPU VEERY_DEVICE T* cache_element(int i) const {
    return reinterpret_cast<VEERY_DEVICE T*>(page_) +
           (is_value() ? value_offset(cache(), kv_, position_, i)
                       : key_offset(cache(), kv_, position_, i));
  }

  /// Two elements of a head that are rotated together.
  struct Pair {
    int first, second;
    float a, b;
  };
  /// The inputs of a Pair. They are loaded without a branch, so that the loads of several pairs
  /// overlap.
  struct PairSource {
    int first, second;
    float a, b, a_weight, b_weight, cos, sin;
    bool rotates;
  };
  /// Returns the inputs of pair q, 0 <= q < head_dim / 2.
  VEERY_GPU PairSource load_pair(int q) const {
    const int pairs = is_value() ? 0 : a_.pairs;
    const bool rotates = q < pairs, apart = rotates && a_.interleaved == 0;
    const int first = apart ? q : 2 * q, second = apart ? q + pairs : 2 * q + 1;
    const VEERY_DEVICE float* x = row_.x;
    const VEERY_DEVICE float* weight = row_.weight != nullptr ? row_.weight : x;
    const VEERY_DEVICE float* angle = rotates ? a_.angles.row(r_) + 2 * q : x;
    return {first,          second,   x[first], x[second], weight[first],
            weight[second], angle[0], angle[1], rotates};
  }
  VEERY_GPU Pair pair_of(const VEERY_THREAD PairSource& from) const {
    const bool normed = row_.weight != nullptr;
    const float a = normed ? from.a * row_.inverse * from.a_weight : from.a;
    const float b = normed ? from.b * row_.inverse * from.b_weight : from.b;
    const float x = a * from.cos - b * from.sin, y = a * from.sin + b * from.cos;
    return {from.first, from.second, from.rotates ? x : a, from.rotates ? y : b};
  }

 private:
  VEERY_GPU const VEERY_THREAD Cache& cache() const { return is_value() ? a_.values : a_.keys; }

  const VEERY_THREAD QkvRopeParams& a_;
  int64_t r_;
  int head_, kv_;
  Row row_;
  int64_t position_ = 0;
  VEERY_DEVICE uint8_t* page_ = nullptr;
};
VEERY_GPU void qkv_rope(const VEERY_THREAD QkvRopeParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.qkv.rows)) return;
  for (int head = warp() + block_y() * warps(); head < a.heads + 2 * a.kv_heads;
       head += warps() * a.blocks_per_row) {
    QkvHead own(a, r, head);
    own.find_page();
    for (int i = lane(); i < a.head_dim; i += kWarp) own.store(i, own.at(i));
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ROPE_KERNELS(X)                     \
  VEERY_GPU_SINGLE(X, kShared, rope, RopeParams, 256) \
  VEERY_GPU_SINGLE(X, kShared, qkv_rope, QkvRopeParams, 256)
