// rows.h: ops that look at one row at a time: a block of threads a row.
#pragma once
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

// Element (row, k) of a weight as decode.h has it: (d scale) q, then less (dmin min) or plus m.
template <Format kFormat>
VEERY_GPU float element(const VEERY_THREAD Weight& w, int64_t row, int k) {
  constexpr FormatInfo f = format_info(kFormat);
  constexpr UnitPlaces p = unit_places(kFormat);
  const VEERY_DEVICE uint8_t* panel = w.data + row / 16 * w.panel;
  const int n = static_cast<int>(row % 16), g = n % 8, high = n / 8;
  if constexpr (kFormat == kBF16) {
    const VEERY_DEVICE uint8_t* unit = panel + int64_t{k / 16} * p.bytes;
    return bf16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(
        unit + (4 * g + k % 16 / 4) * 16 + high * 8)[k % 4]);
  } else if constexpr (is_chained(kFormat)) {
    const VEERY_DEVICE uint8_t* at = panel + (int64_t{k / f.block} * 16 + n) * 16;
    if constexpr (kFormat == kF32)
      return reinterpret_cast<const VEERY_DEVICE float*>(at)[k % f.block];
    if constexpr (kFormat == kF8)
      return reinterpret_cast<const VEERY_DEVICE float*>(panel +
                                                         int64_t{w.cols} * 16)[k / 32 * 16 + n] *
             e4m3_to_float(at[k % f.block]);
    return half_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(at)[k % f.block]);
  } else {
    const VEERY_DEVICE uint8_t* unit = panel + int64_t{k / f.block} * p.bytes;
    const int in = k % f.block, l = 4 * g + in % 16 / 4, upper = in % 32 / 16;
    int code;
    if constexpr (f.bits == 8) {
      const uint8_t byte = unit[in / 32 * p.tile + l * 16 + (2 * upper + high) * 4 + in % 4];
      code = static_cast<int8_t>(byte);
    } else {
      const uint8_t byte = unit[in / 32 * p.tile + l * 8 + high * 4 + in % 4];
      code = upper != 0 ? byte >> 4 : byte & 15;
      if constexpr (kFormat == kBook || kFormat == kBook2) code = book_value(code);
    }
    if constexpr (has_halves(kFormat))
      return half_scale(unit[p.d + 4 * g + 2 * upper + high]) * static_cast<float>(code);
    code -= f.less;
    const auto half_at = [&](int place) {
      return half_to_float(
          reinterpret_cast<const VEERY_DEVICE uint16_t*>(unit + place)[2 * g + high]);
    };
    const float d = f.wide ? reinterpret_cast<const VEERY_DEVICE float*>(unit + p.d)[2 * g + high]
                           : half_at(p.d);
    if constexpr (f.block == 32) {
      const float y = d * static_cast<float>(code);
      if constexpr (f.minima && f.wide)
        return y + reinterpret_cast<const VEERY_DEVICE float*>(unit + p.m)[2 * g + high];
      return f.minima ? y + half_at(p.m) : y;
    } else {
      constexpr int kEach = 256 / f.sub;
      const int at = (2 * g + high) * kEach + in / f.sub;
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
    case kBook: return element<kBook>(w, row, k);
    case kQ4MW: return element<kQ4MW>(w, row, k);
    case kQ8MW: return element<kQ8MW>(w, row, k);
    case kBook2: return element<kBook2>(w, row, k);
    case kF32: return element<kF32>(w, row, k);
    case kF16: return element<kF16>(w, row, k);
    case kF8: return element<kF8>(w, row, k);
    default: return element<kBF16>(w, row, k);
  }
}

VEERY_GPU void embed(const VEERY_THREAD EmbedArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int64_t row = a.ids[r];
  for (int k = thread(); k < a.out.cols; k += threads())
    a.out.row(r)[k] = any_element(a.weight, row, k) * a.factor;
}

/// A warp a part of a row.
VEERY_GPU void rms_norm(const VEERY_THREAD RmsNormArguments& a VEERY_HERE) {
  wait_for_inputs();
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
    const Row row =
        row_of(a.x.row(r), a.norm, n, a.staged != 0,
               reinterpret_cast<VEERY_SHARED float*>(shared_memory()), nullptr VEERY_GO);
    return write(0, row.inverse, thread(), threads());
  }
  for (int part = warp(); part < a.groups; part += warps())
    write(part, inverse_rms(a.x.row(r) + int64_t{part} * n, n, a.norm.eps), lane(), kWarp);
}

/// A warp finds the moments of a part of a row, which is in shared memory behind those.
VEERY_GPU void layer_norm(const VEERY_THREAD LayerNormArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const int n = a.out.cols / a.groups;
  auto* moments = reinterpret_cast<VEERY_SHARED Two<float>*>(shared_memory());
  const VEERY_DEVICE float* x = a.x.row(r);
  if (a.staged != 0) {
    auto* own = reinterpret_cast<VEERY_SHARED float*>(moments + a.groups);
    VEERY_UNROLL(4)
    for (int i = thread(); i < a.out.cols; i += threads()) own[i] = x[i];
    x = brought(own, x);
    sync_block();
  }
  for (int part = warp(); part < a.groups; part += warps()) {
    const Two<float> of = moments_of(x + int64_t{part} * n, n, a.eps);
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

VEERY_GPU float formula(const VEERY_THREAD ElementwiseArguments& a, float x, float y) {
  switch (a.op) {
    case Elementwise::kAdd: return x + y;
    case Elementwise::kMul: return x * y;
    case Elementwise::kScale: return x * a.factor;
    case Elementwise::kActivate: return activated(x, a.activate);
    case Elementwise::kSoftcap: return a.factor * hyperbolic_tangent(x / a.factor);
  }
  return 0;
}
VEERY_GPU void elementwise(const VEERY_THREAD ElementwiseArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_y();
  if (r >= a.run.count(a.out.rows)) return;
  for (int k = block_x() * threads() + thread(); k < a.out.cols; k += blocks_x() * threads()) {
    const float y = a.b ? a.b.row(a.b.rows == 1 ? 0 : r)[k / a.part] : 0.0F;
    a.out.row(r)[k] = formula(a, a.a.row(r)[k], y);
  }
}

VEERY_GPU void select_rows(const VEERY_THREAD SelectRowsArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  for (int k = thread(); k < a.out.cols; k += threads()) a.out.row(r)[k] = a.x.row(a.rows[r])[k];
}

/// The largest of all threads of a block; `shared` has a key for each warp.
VEERY_GPU uint64_t block_largest(uint64_t key, VEERY_SHARED uint64_t* shared VEERY_HERE) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(key, mask);
    key = other > key ? other : key;
  }
  if (lane() == 0) shared[warp()] = key;
  sync_block();
  for (int i = 0; i < warps(); ++i) key = shared[i] > key ? shared[i] : key;
  return key;
}
VEERY_GPU void argmax(const VEERY_THREAD ArgmaxArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  uint64_t best = 0;
  for (int k = thread(); k < a.x.cols; k += threads()) {
    const uint64_t key = key_of(a.x.row(r)[k], k);
    best = key > best ? key : best;
  }
  best = block_largest(best, reinterpret_cast<VEERY_SHARED uint64_t*>(shared_memory()) VEERY_GO);
  if (thread() == 0) reinterpret_cast<VEERY_DEVICE int32_t*>(a.out.row(r))[0] = index_of(best);
}

VEERY_GPU void best(const VEERY_THREAD BestArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.run.count(a.out.rows)) return;
  reinterpret_cast<VEERY_DEVICE int32_t*>(a.out.row(r))[0] = index_of(a.best[r]);
  a.best[r] = 0;
}

struct Rotation {
  int begin, pairs;
  bool interleaved;
  float sign;
};
/// Element k of a rotated head, whose elements x(k) are.
template <typename Element>
VEERY_GPU float rotated(const VEERY_THREAD Element& x, int k, const VEERY_DEVICE float* angles,
                        const VEERY_THREAD Rotation& how) {
  const int in = k - how.begin;
  if (in < 0 || in >= 2 * how.pairs) return x(k);
  const int pair = how.interleaved ? in / 2 : in % how.pairs;
  const bool second = how.interleaved ? in % 2 != 0 : in >= how.pairs;
  const float cos = angles[2 * pair];
  const float sin = angles[2 * pair + 1] * how.sign;
  const float a = x(how.begin + (how.interleaved ? 2 * pair : pair));
  const float b = x(how.begin + (how.interleaved ? 2 * pair + 1 : pair + how.pairs));
  return second ? a * sin + b * cos : a * cos - b * sin;
}
VEERY_GPU void rope(const VEERY_THREAD RopeArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.out.rows)) return;
  const Rotation how = {a.begin, a.pairs, a.interleaved != 0, a.sign};
  for (int c = thread(); c < a.out.cols; c += threads()) {
    const VEERY_DEVICE float* head = a.x.row(r) + c / a.head_dim * a.head_dim;
    a.out.row(r)[c] = rotated([&](int k) { return head[k]; }, c % a.head_dim, a.angles.row(r), how);
  }
}

/// Where position `position` of the sequence of row `r` is: its page.
VEERY_GPU int32_t page_number(const VEERY_THREAD Cache& cache, const VEERY_THREAD Run& run,
                              int sequence, int64_t position) {
  const VEERY_DEVICE int32_t* table = run.tables + 2 * (cache.group * run.counts[3] + sequence);
  // Positions are below 2^31, for which division is short.
  const auto page = static_cast<uint32_t>(position) / 256;
  return run.pages[table[0] + page % static_cast<uint32_t>(table[1])];
}
VEERY_GPU VEERY_DEVICE uint8_t* page_of(const VEERY_THREAD Cache& cache,
                                        const VEERY_THREAD Run& run, int sequence,
                                        int64_t position) {
  return cache.data + page_number(cache, run, sequence, position) * cache.page;
}
VEERY_GPU int64_t key_place(const VEERY_THREAD Cache& cache, int head, int64_t position, int i) {
  const int64_t in = position % 256;
  return ((head * 16 + in / 16) * cache.head_dim + i) * 16 + in % 16;
}
VEERY_GPU int64_t value_place(const VEERY_THREAD Cache& cache, int head, int64_t position, int i) {
  return (head * 256 + position % 256) * cache.head_dim + i;
}
/// bytes: 4: f32, 2: bf16, 1: f16.
VEERY_GPU void put(VEERY_DEVICE uint8_t* page, int64_t at, float v, int bytes) {
  if (bytes == 4)
    reinterpret_cast<VEERY_DEVICE float*>(page)[at] = v;
  else
    reinterpret_cast<VEERY_DEVICE uint16_t*>(page)[at] =
        bytes == 2 ? float_to_bf16(v) : float_to_half(v);
}

/// A tile of a cache of q8_0: 32 dimensions of 16 positions (kernels/common/pages.h).
struct Q8Place {
  VEERY_DEVICE uint16_t* scale;
  VEERY_DEVICE int8_t* code;
};
VEERY_GPU Q8Place q8_place(const VEERY_THREAD Cache& cache, VEERY_DEVICE uint8_t* page, int head,
                           int64_t position, int i, bool keys) {
  constexpr int kTile = 16 * kQ8Bytes;
  const int64_t in = position % 256;
  VEERY_DEVICE uint8_t* tile =
      page + ((int64_t{head} * 16 + in / 16) * (cache.head_dim / 32) + i / 32) * kTile;
  const auto place = static_cast<int>(in % 16);
  return {reinterpret_cast<VEERY_DEVICE uint16_t*>(tile) + place,
          reinterpret_cast<VEERY_DEVICE int8_t*>(tile + 32) +
              (keys ? i % 32 * 16 + place : place * 32 + i % 32)};
}
/// Of 32 elements, those of the lanes of a warp. What is not finite makes the scale NaN.
VEERY_GPU void put_q8(const VEERY_THREAD Q8Place& at, float v) {
  const bool poisoned = ballot(!(v - v == 0)) != 0;
  const float most = warp_largest(magnitude(v)) / 127;
  const uint16_t stored = poisoned ? uint16_t{0x7e00} : float_to_half(most);
  const float scale = half_to_float(stored);
  const float q = smallest(127.0F, largest(-127.0F, v / scale));
  *at.code = static_cast<int8_t>(scale > 0 ? round_to_int(q) : 0);
  if (lane() == 0) *at.scale = stored;
}
/// Element i of a head, in all lanes of a warp or those that there are.
VEERY_GPU void put_element(const VEERY_THREAD Cache& cache, VEERY_DEVICE uint8_t* page, bool keys,
                           int head, int64_t position, int i, float v, int bytes) {
  if (bytes == kQ8Bytes) return put_q8(q8_place(cache, page, head, position, i, keys), v);
  put(page, keys ? key_place(cache, head, position, i) : value_place(cache, head, position, i), v,
      bytes);
}

VEERY_GPU void cache_write(const VEERY_THREAD CacheWriteArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.x.rows)) return;
  const int64_t position = a.run.positions[r];
  VEERY_DEVICE uint8_t* page =
      page_of(a.cache, a.run, a.run.spans[a.run.span_of[r]].sequence, position);
  for (int c = thread(); c < a.x.cols; c += threads()) {
    const int head = c / a.cache.head_dim, i = c % a.cache.head_dim;
    put_element(a.cache, page, a.keys != 0, head, position, i, a.x.row(r)[c], a.bytes);
  }
}

/// Head `head` of queries, then keys, then values of row r, for a warp.
class QkvHead {
 public:
  VEERY_GPU QkvHead(const VEERY_THREAD QkvRopeArguments& arguments, int64_t r, int head)
      : a_(arguments), r_(r), head_(head) {
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
  /// Before store(): where keys and values go.
  VEERY_GPU void find_place() {
    if (is_query()) return;
    const int64_t position = a_.run.positions[r_];
    const int sequence = a_.run.spans[a_.run.span_of[r_]].sequence;
    set_place(position, page_of(cache(), a_.run, sequence, position));
  }
  VEERY_GPU void set_place(int64_t position, VEERY_DEVICE uint8_t* page) {
    position_ = position, page_ = page;
  }
  VEERY_GPU bool is_query() const { return kv_ < 0; }
  /// Element i, normalised and rotated.
  VEERY_GPU float at(int i) const {
    if (is_value()) return row_.x[i];
    const Rotation how = {0, a_.pairs, a_.interleaved != 0, 1};
    return rotated([&](int k) { return row_.at(k); }, i, a_.angles.row(r_), how);
  }
  /// Element i, in all lanes of a warp or those that there are, to where it is looked for.
  VEERY_GPU void store(int i, float v) const {
    if (is_query()) return void(a_.out.row(r_)[head_ * a_.head_dim + i] = v);
    put_element(cache(), page_, !is_value(), kv_, position_, i, v,
                is_value() ? a_.value_bytes : a_.bytes);
  }

  /// Where element i of a key or a value is in a cache of elements T.
  template <typename T>
  VEERY_GPU VEERY_DEVICE T* place(int i) const {
    return reinterpret_cast<VEERY_DEVICE T*>(page_) + (is_value()
                                                           ? value_place(cache(), kv_, position_, i)
                                                           : key_place(cache(), kv_, position_, i));
  }

  /// Two elements, which are rotated together where they are.
  struct Pair {
    int first, second;
    float a, b;
  };
  /// A pair before that, and what it is made with. Loaded without a branch, so that those of
  /// several pairs are on their way together.
  struct PairSource {
    int first, second;
    float a, b, a_weight, b_weight, cos, sin;
    bool turns;
  };
  /// Pair q of head_dim / 2.
  VEERY_GPU PairSource load_pair(int q) const {
    const int pairs = is_value() ? 0 : a_.pairs;
    const bool turns = q < pairs, apart = turns && a_.interleaved == 0;
    const int first = apart ? q : 2 * q, second = apart ? q + pairs : 2 * q + 1;
    const VEERY_DEVICE float* x = row_.x;
    const VEERY_DEVICE float* weight = row_.weight != nullptr ? row_.weight : x;
    const VEERY_DEVICE float* angle = turns ? a_.angles.row(r_) + 2 * q : x;
    return {first,          second,   x[first], x[second], weight[first],
            weight[second], angle[0], angle[1], turns};
  }
  VEERY_GPU Pair pair_of(const VEERY_THREAD PairSource& from) const {
    const bool normed = row_.weight != nullptr;
    const float a = normed ? from.a * row_.inverse * from.a_weight : from.a;
    const float b = normed ? from.b * row_.inverse * from.b_weight : from.b;
    const float x = a * from.cos - b * from.sin, y = a * from.sin + b * from.cos;
    return {from.first, from.second, from.turns ? x : a, from.turns ? y : b};
  }

 private:
  VEERY_GPU const VEERY_THREAD Cache& cache() const { return is_value() ? a_.values : a_.keys; }

  const VEERY_THREAD QkvRopeArguments& a_;
  int64_t r_;
  int head_, kv_;
  Row row_;
  int64_t position_ = 0;
  VEERY_DEVICE uint8_t* page_ = nullptr;
};
VEERY_GPU void qkv_rope(const VEERY_THREAD QkvRopeArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.qkv.rows)) return;
  for (int head = warp() + block_y() * warps(); head < a.heads + 2 * a.kv_heads;
       head += warps() * a.parts) {
    QkvHead own(a, r, head);
    own.find_place();
    for (int i = lane(); i < a.head_dim; i += kWarp) own.store(i, own.at(i));
  }
}

}  // namespace veery::gpu
