// attend_prefill.h: attention of many rows of one sequence, which share each read of keys and
// values. The order of sums is that of attend_block-inl.h.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

namespace key {

/// `wide`: values of more than 64 dimensions.
constexpr KernelKey attend_prefill(CacheType type, bool wide) {
  return of(Family::kAttendPrefill, static_cast<int>(type), RowClass::kMany, wide);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/attention/attend_split.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {

/// Four elements of the cache, or two.
template <typename T>
VEERY_GPU void unpack(uint32_t word, float& low, float& high) {
  const T first = {static_cast<uint16_t>(word)}, second = {static_cast<uint16_t>(word >> 16)};
  low = Element<T>::load(first), high = Element<T>::load(second);
}

/// The first row of a tile and the last one.
struct RowRange {
  int64_t first, last;
};
/// A key head, and the query heads of a tile that share it, from `first` on.
struct TileHeads {
  int kv, first, count;
};
/// Returns tile `part`, counted over the tiles of query heads of all key heads.
VEERY_GPU TileHeads tile_heads(const AttendParams& a, int part) {
  const int group = a.heads / a.kv_heads, parts = (group + kMaxHeads - 1) / kMaxHeads;
  const int kv = part / parts, before = part % parts * kMaxHeads, left = group - before;
  return {kv, kv * group + before, left < kMaxHeads ? left : kMaxHeads};
}
/// The tile of a thread block, and the positions that its queries see.
class PrefillTile {
 public:
  VEERY_GPU PrefillTile(const AttendParams& params, const RowRange& rows, int part)
      : a_(params),
        row_(rows.first),
        last_row_(rows.last),
        slots_(shared_heads(a_.heads, a_.kv_heads)) {
    const TileHeads heads = tile_heads(a_, part);
    kv_ = heads.kv, head_ = heads.first, heads_ = heads.count;
    const int64_t token = a_.run.token_row(a_.q.rows, row_);
    begin_ = a_.run.position(token);
    end_ = begin_ + last_row_ - row_;
    sequence_ = a_.run.spans[a_.run.span_of[token]].sequence;
  }

 protected:
  VEERY_GPU bool is_query(int slot) const {
    return slot % slots_ < heads_ && slot / slots_ <= last_row_ - row_;
  }
  VEERY_GPU int64_t position_of(int slot) const { return begin_ + slot / slots_; }
  VEERY_GPU int64_t first_seen(int64_t position) const {
    if (a_.window <= 0) return 0;
    return a_.chunked != 0         ? position / a_.window * a_.window
           : position >= a_.window ? position - a_.window + 1
                                   : 0;
  }
  VEERY_GPU const uint8_t* page(const Cache& cache, int64_t block) const {
    return page_of(cache, a_.run, sequence_, block * kKvBlock);
  }
  /// Returns a position relative to the beginning of a KV block; -1 or kKvBlock if it is outside.
  static VEERY_GPU int within(int64_t position) {
    return static_cast<int>(position < -1 ? -1 : position > kKvBlock ? kKvBlock : position);
  }

  const AttendParams& a_;
  int64_t row_, last_row_, begin_, end_;  ///< rows, and the positions of the first and the last
  int slots_;                             ///< slots per row, of which heads_ are used
  int kv_, head_, heads_, sequence_;
};

/// kDims: dimensions of values per lane; T: elements of two bytes.
template <typename T, int kDims>
class PrefillAttention : PrefillTile {
 public:
  VEERY_GPU PrefillAttention(const AttendParams& params, const RowRange& rows, int part)
      : PrefillTile(params, rows, part), layout_(attend_prefill_smem(a_.key_dim, a_.value_dim)) {
    query_position_ = position_of(slot(lane() % kQueriesPerWarp));
    query_first_seen_ = first_seen(query_position_);
  }

  VEERY_GPU void run() {
    const int64_t first = first_seen(begin_) / kKvBlock, last = end_ / kKvBlock;
    if (thread() < 2) init_mbarrier(mbarrier(thread()));
    load_queries();
    sync_block();
    copy_keys(first);
    copy_values(first);
    for (int64_t block = first; block <= last; ++block) {
      const auto phase = static_cast<int>(block - first);
      wait_for_phase(mbarrier(0), phase);
      float scores[kQueriesPerWarp][4] = {};
      score(scores);
      softmax_weights(block, scores);
      sync_block();  // the keys have been read
      if (block < last) copy_keys(block + 1);
      wait_for_phase(mbarrier(1), phase);
      float part[kQueriesPerWarp][kDims] = {};
      add_values(block, part);
      sync_block();
      if (block < last) copy_values(block + 1);
      merge_in(block, part);
    }
    finish();
  }

 private:
  /// Returns the slot of query i (0 to 7) of the warp.
  VEERY_GPU int slot(int i) const { return warp() * kQueriesPerWarp + i; }

  VEERY_GPU Mbarrier* mbarrier(int i) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + layout_.mbarriers) + i;
  }
  struct Piece {
    uint8_t* to;
    const uint8_t* from;
    int bytes;
  };
  /// The first warp issues the copies, 16 positions per lane.
  VEERY_GPU void copy_keys(int64_t block) const {
    if (warp() != 0) return;
    const uint8_t* from = page(a_.keys, block) + 2 * key_offset(a_.keys, kv_, block * kKvBlock, 0);
    uint8_t* to = shared_memory() + layout_.keys;
    const int bytes = a_.key_dim * 32;
    copy_bulk_pieces(mbarrier(0), kKvBlock / 16, [&](int i) {
      return Piece{to + i * layout_.key_group, from + i * bytes, bytes};
    });
  }
  VEERY_GPU void copy_values(int64_t block) const {
    if (warp() != 0) return;
    const uint8_t* from =
        page(a_.values, block) + 2 * value_offset(a_.values, kv_, block * kKvBlock, 0);
    uint8_t* to = shared_memory() + layout_.values;
    const int bytes = 16 * a_.value_dim * 2;
    copy_bulk_pieces(mbarrier(1), kKvBlock / 16, [&](int i) {
      return Piece{to + i * bytes, from + i * bytes, bytes};
    });
  }
  /// [dimension][query]
  VEERY_GPU void load_queries() const {
    auto* to = reinterpret_cast<float*>(shared_memory());
    const int own = thread() % kPrefillQueries;
    const float* from = a_.q.row(is_query(own) ? row_ + own / slots_ : row_) +
                        (head_ + (is_query(own) ? own % slots_ : 0)) * a_.key_dim;
    for (int i = thread() / kPrefillQueries * 4; i < a_.key_dim;
         i += threads() / kPrefillQueries * 4) {
      const auto q = load<Four<float>>(from + i);
      const float four[4] = {q.x, q.y, q.z, q.w};
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e)
        to[(i + e) * kPrefillQueries + own] =
            Element<T>::rounded(Element<T>::multiply(four[e], a_.scale));
    }
  }

  // Each lane accumulates the scores of 4 positions, for each query, over the dimensions.
  VEERY_GPU void score(float (&scores)[kQueriesPerWarp][4]) const {
    const uint8_t* keys =
        shared_memory() + layout_.keys + lane() / 4 * layout_.key_group + lane() % 4 * 8;
    const float* queries = reinterpret_cast<const float*>(shared_memory()) + slot(0);
    const auto add = [&](int i) {
      const auto words = load<Two<uint32_t>>(keys + i * 32);
      float k[4], q[kQueriesPerWarp];
      unpack<T>(words.x, k[0], k[1]);
      unpack<T>(words.y, k[2], k[3]);
      load_eight(queries + i * kPrefillQueries, q);
      each_product<4>(
          [&](int h, int j) { scores[h][j] = Element<T>::multiply_add(q[h], k[j], scores[h][j]); });
    };
    constexpr int kOdd =
        Element<T>::kPairs ? 1 : 0;  // of a bf16 pair the odd dimension comes first
    VEERY_UNROLL(1)
    for (int i = 0; i < a_.key_dim; i += 8) VEERY_UNROLL(8)
    for (int step = 0; step < 8; ++step) add(i + (step ^ kOdd));
  }
  static VEERY_GPU void load_eight(const float* from, float (&to)[kQueriesPerWarp]) {
    const auto low = load<Four<float>>(from), high = load<Four<float>>(from + 4);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }

  // Returns the weights of a warp: [position][8 queries], with 16 bytes of padding every 4
  // positions against bank conflicts.
  VEERY_GPU float* weights() const {
    return reinterpret_cast<float*>(shared_memory() + layout_.weights) + warp() * kKvBlock * 9;
  }
  static VEERY_GPU int weight_offset(int position) {
    return position * kQueriesPerWarp + position / 4 * 4;
  }
  VEERY_GPU void store_weights(const float (&w)[kQueriesPerWarp][4]) const {
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      auto* to = reinterpret_cast<Four<float>*>(weights() + weight_offset(4 * lane() + j));
      to[0] = {w[0][j], w[1][j], w[2][j], w[3][j]};
      to[1] = {w[4][j], w[5][j], w[6][j], w[7][j]};
    }
    sync_warp();
  }
  // Computes maxima of scores, softmax weights and their sums. Lane i keeps those of query i % 8.
  VEERY_GPU void softmax_weights(int64_t block, float (&w)[kQueriesPerWarp][4]) {
    if (a_.softcap > 0) apply_softcap(w);
    // The range of the block that each query sees, and whether all queries see all of it.
    const int low = within(query_first_seen_ - block * kKvBlock),
              high = within(query_position_ - block * kKvBlock);
    const bool whole = ballot(low > 0 || high < kKvBlock - 1) == 0;
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) {
      if (!whole) apply_mask(shuffle(low, h), shuffle(high, h), w[h]);
      const float max_score =
          warp_max(max_f32(max_f32(w[h][0], w[h][1]), max_f32(w[h][2], w[h][3])));
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) w[h][j] = exp_clamped(w[h][j] - max_score);
      if (!whole && max_score == kNoScore) clear(w[h]);
      if (lane() % kQueriesPerWarp == h) block_max_ = max_score;
    }
    store_weights(w);
    add_weights();
    sync_warp();
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) w[h][j] = Element<T>::rounded(w[h][j]);
    store_weights(w);
  }
  // Masks scores, so that the weights of masked positions become 0. Queries that see no position of
  // the block are skipped.
  static VEERY_GPU void apply_mask(int low, int high, float (&w)[4]) {
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int position = 4 * lane() + j;
      if (position < low || position > high) w[j] = kNoScore;
    }
  }
  static VEERY_GPU void clear(float (&w)[4]) { w[0] = w[1] = w[2] = w[3] = 0; }
  VEERY_GPU void apply_softcap(float (&w)[kQueriesPerWarp][4]) const {
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      w[h][j] = Element<T>::multiply(a_.softcap, tanh_f32(Element<T>::divide(w[h][j], a_.softcap)));
  }
  // Lane l of 16 adds positions l, l + 16, l + 32, ...; the other 16 lanes have another query.
  VEERY_GPU void add_weights() {
    VEERY_UNROLL(4)
    for (int i = 0; i < kQueriesPerWarp; i += 2) {
      float sum = 0;
      VEERY_UNROLL(8)
      for (int tile = 0; tile < kKvBlock / 16; ++tile)
        sum = sum + weights()[weight_offset(16 * tile + lane() % 16) + i + lane() / 16];
      sum = sum_16_lanes(sum);
      const float first = shuffle(sum, 0), second = shuffle(sum, 16);
      if (lane() % kQueriesPerWarp == i) block_sum_ = first;
      if (lane() % kQueriesPerWarp == i + 1) block_sum_ = second;
    }
  }

  // Each lane accumulates its dimensions of each query over the positions.
  VEERY_GPU void add_values(int64_t block, float (&part)[kQueriesPerWarp][kDims]) const {
    const int64_t begin = block * kKvBlock, from = first_seen(begin_);
    const int low = static_cast<int>(from > begin ? from - begin : 0);
    const int high = static_cast<int>(end_ - begin < kKvBlock - 1 ? end_ - begin : kKvBlock - 1);
    const int dim = lane() * kDims < a_.value_dim ? lane() * kDims : 0;
    const uint8_t* values = shared_memory() + layout_.values + 2 * dim;
    const float* own = weights();
    const auto add = [&](int p) {
      add_position(own + weight_offset(p), values + 2 * p * a_.value_dim, part);
    };
    constexpr int kOdd = Element<T>::kPairs ? 1 : 0;  // of a bf16 pair the odd position comes first
    int p = low;
    if (p % 2 != 0) add(p++);
    VEERY_UNROLL(1)
    for (; p % 8 != 0 && p + 1 <= high; p += 2) {
      add(p + kOdd);
      add(p + 1 - kOdd);
    }
    VEERY_UNROLL(1)
    for (; p + 7 <= high; p += 8) {
      const float* w = own + weight_offset(p);
      const uint8_t* v = values + 2 * p * a_.value_dim;
      VEERY_UNROLL(8)
      for (int i = 0; i < 8; ++i)
        add_position(w + weight_offset(i ^ kOdd), v + 2 * (i ^ kOdd) * a_.value_dim, part);
    }
    VEERY_UNROLL(1)
    for (; p + 1 <= high; p += 2) {
      add(p + kOdd);
      add(p + 1 - kOdd);
    }
    if (p <= high) add(p);
  }
  static VEERY_GPU void add_position(const float* weights, const uint8_t* at,
                                     float (&part)[kQueriesPerWarp][kDims]) {
    float w[kQueriesPerWarp], v[kDims];
    load_eight(weights, w);
    if constexpr (kDims == 4) {
      const auto words = load<Two<uint32_t>>(at);
      unpack<T>(words.x, v[0], v[1]);
      unpack<T>(words.y, v[2], v[3]);
    } else {
      unpack<T>(load<uint32_t>(at), v[0], v[1]);
    }
    each_product<kDims>(
        [&](int h, int i) { part[h][i] = Element<T>::multiply_add(w[h], v[i], part[h][i]); });
  }
  /// Alternates the direction over the queries, so that each product shares a factor with the
  /// previous one: reading three registers of one bank takes an additional cycle.
  template <int kOthers, typename Product>
  static VEERY_GPU void each_product(const Product& product) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kOthers; ++i) VEERY_UNROLL(8)
    for (int e = 0; e < kQueriesPerWarp; ++e) product(i % 2 == 0 ? e : kQueriesPerWarp - 1 - e, i);
  }

  // State::merge_in() for the queries that see a position of the KV block.
  VEERY_GPU void merge_in(int64_t block, const float (&part)[kQueriesPerWarp][kDims]) {
    const int64_t last = query_position_ / kKvBlock;
    const bool sees = is_query(slot(lane() % kQueriesPerWarp)) &&
                      block >= query_first_seen_ / kKvBlock && block <= last;
    const bool ends = sees && (block == last || ends_segment(block));
    SoftmaxMerge m = merge<T>(segment_max_, segment_sum_, block_max_, block_sum_);
    if (sees) segment_max_ = m.max_score, segment_sum_ = m.sum;
    apply(sees, m, part, segment_);
    m = merge<T>(max_score_, sum_, segment_max_, segment_sum_);
    if (ends) max_score_ = m.max_score, sum_ = m.sum, segment_max_ = kNoScore, segment_sum_ = 0;
    if (ballot(ends) == 0) return;
    apply(ends, m, segment_, whole_);
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) {
      const bool clear = shuffle(ends ? 1 : 0, h) != 0;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) segment_[h][i] = clear ? 0.0F : segment_[h][i];
    }
  }
  // `active` and `m` of lane h are those of query h.
  static VEERY_GPU void apply(bool active, const SoftmaxMerge& m,
                              const float (&other)[kQueriesPerWarp][kDims],
                              float (&values)[kQueriesPerWarp][kDims]) {
    const uint32_t which = ballot(active);
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) {
      const float keep = shuffle(m.keep, h), add = shuffle(m.add, h);
      if ((which >> h & 1U) == 0) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i)
        values[h][i] =
            Element<T>::multiply_add(other[h][i], add, Element<T>::multiply(values[h][i], keep));
    }
  }

  VEERY_GPU void finish() const {
    const int own = slot(lane() % kQueriesPerWarp);
    const bool sink = a_.sinks != nullptr;
    SoftmaxMerge m = {max_score_, sum_, 1, 0};
    if (sink && is_query(own)) m = merge<T>(max_score_, sum_, a_.sinks[head_ + own % slots_], 1);
    VEERY_UNROLL(8)
    for (int h = 0; h < kQueriesPerWarp; ++h) {
      const float keep = shuffle(m.keep, h), sum = shuffle(m.sum, h);
      if (!is_query(slot(h))) continue;
      float* out = a_.out.row(row_ + slot(h) / slots_) + (head_ + slot(h) % slots_) * a_.value_dim;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) {
        const int c = lane() * kDims + i;
        const float v = sink ? Element<T>::multiply(whole_[h][i], keep) : whole_[h][i];
        if (c < a_.value_dim) out[c] = Element<T>::divide(v, sum);
      }
    }
  }

  AttendPrefillSmem layout_;
  int64_t query_position_,
      query_first_seen_;  ///< of query lane() % 8: its position, and the first one that it sees
  float block_max_ = kNoScore, block_sum_ = 0;
  float segment_max_ = kNoScore, segment_sum_ = 0, max_score_ = kNoScore, sum_ = 0;
  float segment_[kQueriesPerWarp][kDims] = {}, whole_[kQueriesPerWarp][kDims] = {};
};

/// Returns the tile of this thread block if its rows are consecutive positions of one sequence,
/// otherwise an empty tile.
VEERY_GPU RowRange contiguous_tile(const AttendParams& a) {
  const int64_t rows = a.run.count(a.out.rows);
  // The last tiles see most positions, so they are scheduled first.
  const int64_t tile = (rows + a.tile_rows - 1) / a.tile_rows - 1 - block_y();
  if (tile < 0) return {0, -1};
  const int64_t first = tile * a.tile_rows;
  const int64_t end = first + a.tile_rows < rows ? first + a.tile_rows : rows;
  if (!is_contiguous(a, first, end - 1)) return {0, -1};
  return {first, end - 1};
}

/// Processes tiles whose rows are consecutive positions of one sequence; attend_ragged() processes
/// the others.
template <typename T, int kDims>
VEERY_GPU void attend_prefill(const AttendParams& a) {
  wait_for_dependencies();
  const RowRange rows = contiguous_tile(a);
  if (rows.first <= rows.last) PrefillAttention<T, kDims>(a, rows, block_x()).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ATTEND_PREFILL(X, name, type, cache)                      \
  X(kCuda, attend_prefill_##name##_4, AttendParams, 256, 0,                 \
    key::attend_prefill(CacheType::cache, true), (attend_prefill<type, 4>)) \
  X(kCuda, attend_prefill_##name##_2, AttendParams, 256, 0,                 \
    key::attend_prefill(CacheType::cache, false), (attend_prefill<type, 2>))
#define VEERY_GPU_ATTEND_PREFILL_KERNELS(X)      \
  VEERY_GPU_ATTEND_PREFILL(X, bf16, BF16, kBF16) \
  VEERY_GPU_ATTEND_PREFILL(X, f16, F16, kF16)
