// attend_tiles.h: attention of many rows of one sequence, whose keys and values are read once for
// all of them; in the order of attend.h.
#pragma once
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// Four elements of the cache, or two.
template <typename T>
VEERY_GPU void unpack(uint32_t word, float& low, float& high) {
  const T first = {static_cast<uint16_t>(word)}, second = {static_cast<uint16_t>(word >> 16)};
  low = Element<T>::load(first), high = Element<T>::load(second);
}

/// Rows of a tile, the last included.
struct TileRows {
  int64_t first, last;
};
/// A head of keys and values, and the queries' heads from `first` on that share it in a tile.
struct TileHeads {
  int kv, first, count;
};
/// `part`: of kv_heads times the tiles that the queries' heads of each take.
VEERY_GPU TileHeads tile_heads(const AttendArguments& a, int part) {
  const int group = a.heads / a.kv_heads, parts = (group + kMostHeads - 1) / kMostHeads;
  const int kv = part / parts, before = part % parts * kMostHeads, left = group - before;
  return {kv, kv * group + before, left < kMostHeads ? left : kMostHeads};
}
/// Where the tile of a block of threads lies, and what its queries see.
class TileRun {
 public:
  VEERY_GPU TileRun(const AttendArguments& arguments, const TileRows& rows, int part)
      : a_(arguments),
        row_(rows.first),
        last_row_(rows.last),
        slots_(shared_heads(a_.heads, a_.kv_heads)) {
    const TileHeads heads = tile_heads(a_, part);
    kv_ = heads.kv, head_ = heads.first, heads_ = heads.count;
    const int64_t token = a_.run.token_row(a_.q.rows, row_);
    begin_ = a_.run.positions[token];
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
    return page_of(cache, a_.run, sequence_, block * kBlock);
  }
  /// Of a position, counted from the beginning of a block; -1 and kBlock if it is outside.
  static VEERY_GPU int within(int64_t position) {
    return static_cast<int>(position < -1 ? -1 : position > kBlock ? kBlock : position);
  }

  const AttendArguments& a_;
  int64_t row_, last_row_, begin_, end_;  ///< rows, and the positions of the first and the last
  int slots_;                             ///< queries of a row, of which heads_ are used
  int kv_, head_, heads_, sequence_;
};

/// kDims: of values, of a lane; T: elements of two bytes.
template <typename T, int kDims>
class TileAttention : TileRun {
 public:
  VEERY_GPU TileAttention(const AttendArguments& arguments, const TileRows& rows, int part)
      : TileRun(arguments, rows, part), places_(attend_places(a_.key_dim, a_.value_dim)) {
    own_ = position_of(slot(lane() % kWarpQueries));
    own_first_ = first_seen(own_);
  }

  VEERY_GPU void run() {
    const int64_t first = first_seen(begin_) / kBlock, last = end_ / kBlock;
    if (thread() < 2) make_mbarrier(mbarrier(thread()));
    load_queries();
    sync_block();
    ask_keys(first);
    ask_values(first);
    for (int64_t block = first; block <= last; ++block) {
      const auto turn = static_cast<int>(block - first);
      wait_for_pieces(mbarrier(0), turn);
      float scores[kWarpQueries][4] = {};
      score(scores);
      weigh(block, scores);
      sync_block();  // the keys are no longer looked at
      if (block < last) ask_keys(block + 1);
      wait_for_pieces(mbarrier(1), turn);
      float part[kWarpQueries][kDims] = {};
      add_values(block, part);
      sync_block();
      if (block < last) ask_values(block + 1);
      merge_in(block, part);
    }
    finish();
  }

 private:
  /// Of a query: 8 of a warp.
  VEERY_GPU int slot(int i) const { return warp() * kWarpQueries + i; }

  VEERY_GPU Mbarrier* mbarrier(int i) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + places_.mbarriers) + i;
  }
  struct Piece {
    uint8_t* to;
    const uint8_t* from;
    int bytes;
  };
  /// By the first warp: a lane 16 positions.
  VEERY_GPU void ask_keys(int64_t block) const {
    if (warp() != 0) return;
    const uint8_t* from = page(a_.keys, block) + 2 * key_place(a_.keys, kv_, block * kBlock, 0);
    uint8_t* to = shared_memory() + places_.keys;
    const int bytes = a_.key_dim * 32;
    ask_pieces(mbarrier(0), kBlock / 16, [&](int i) {
      return Piece{to + i * places_.key_group, from + i * bytes, bytes};
    });
  }
  VEERY_GPU void ask_values(int64_t block) const {
    if (warp() != 0) return;
    const uint8_t* from =
        page(a_.values, block) + 2 * value_place(a_.values, kv_, block * kBlock, 0);
    uint8_t* to = shared_memory() + places_.values;
    const int bytes = 16 * a_.value_dim * 2;
    ask_pieces(mbarrier(1), kBlock / 16, [&](int i) {
      return Piece{to + i * bytes, from + i * bytes, bytes};
    });
  }
  /// [dimension][query]
  VEERY_GPU void load_queries() const {
    auto* to = reinterpret_cast<float*>(shared_memory());
    const int own = thread() % kTileQueries;
    const float* from = a_.q.row(is_query(own) ? row_ + own / slots_ : row_) +
                        (head_ + (is_query(own) ? own % slots_ : 0)) * a_.key_dim;
    for (int i = thread() / kTileQueries * 4; i < a_.key_dim; i += threads() / kTileQueries * 4) {
      const auto q = load<Four<float>>(from + i);
      const float four[4] = {q.x, q.y, q.z, q.w};
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e)
        to[(i + e) * kTileQueries + own] =
            Element<T>::rounded(Element<T>::multiply(four[e], a_.scale));
    }
  }

  // A lane 4 positions of each query: chains over the dimensions.
  VEERY_GPU void score(float (&scores)[kWarpQueries][4]) const {
    const uint8_t* keys =
        shared_memory() + places_.keys + lane() / 4 * places_.key_group + lane() % 4 * 8;
    const float* queries = reinterpret_cast<const float*>(shared_memory()) + slot(0);
    const auto add = [&](int i) {
      const auto words = load<Two<uint32_t>>(keys + i * 32);
      float k[4], q[kWarpQueries];
      unpack<T>(words.x, k[0], k[1]);
      unpack<T>(words.y, k[2], k[3]);
      load_eight(queries + i * kTileQueries, q);
      each_product<4>(
          [&](int h, int j) { scores[h][j] = Element<T>::multiply_add(q[h], k[j], scores[h][j]); });
    };
    constexpr int kOdd = Element<T>::kPairs ? 1 : 0;  // comes first
    VEERY_UNROLL(1)
    for (int i = 0; i < a_.key_dim; i += 8) VEERY_UNROLL(8)
    for (int step = 0; step < 8; ++step) add(i + (step ^ kOdd));
  }
  static VEERY_GPU void load_eight(const float* from, float (&to)[kWarpQueries]) {
    const auto low = load<Four<float>>(from), high = load<Four<float>>(from + 4);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }

  // Weights of a warp: [position][8 queries], 16 bytes left out every 4 positions for the banks.
  VEERY_GPU float* weights() const {
    return reinterpret_cast<float*>(shared_memory() + places_.weights) + warp() * kBlock * 9;
  }
  static VEERY_GPU int weight_place(int position) {
    return position * kWarpQueries + position / 4 * 4;
  }
  VEERY_GPU void put_weights(const float (&w)[kWarpQueries][4]) const {
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      auto* to = reinterpret_cast<Four<float>*>(weights() + weight_place(4 * lane() + j));
      to[0] = {w[0][j], w[1][j], w[2][j], w[3][j]};
      to[1] = {w[4][j], w[5][j], w[6][j], w[7][j]};
    }
    sync_warp();
  }
  // Largest scores, weights and their sums; lane i keeps those of query i % 8.
  VEERY_GPU void weigh(int64_t block, float (&w)[kWarpQueries][4]) {
    if (a_.softcap > 0) cap(w);
    // What each query sees of the block, and whether that is all of it for all of them.
    const int low = within(own_first_ - block * kBlock), high = within(own_ - block * kBlock);
    const bool whole = ballot(low > 0 || high < kBlock - 1) == 0;
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) {
      if (!whole) hide(shuffle(low, h), shuffle(high, h), w[h]);
      const float most =
          warp_largest(largest(largest(w[h][0], w[h][1]), largest(w[h][2], w[h][3])));
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) w[h][j] = exp_to_88(w[h][j] - most);
      if (!whole && most == kNothing) clear(w[h]);
      if (lane() % kWarpQueries == h) part_most_ = most;
    }
    put_weights(w);
    add_weights();
    sync_warp();
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) w[h][j] = Element<T>::rounded(w[h][j]);
    put_weights(w);
  }
  // Their weights become 0, as exp_to_88() of such a difference is; but for queries that see
  // nothing.
  static VEERY_GPU void hide(int low, int high, float (&w)[4]) {
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int position = 4 * lane() + j;
      if (position < low || position > high) w[j] = kNothing;
    }
  }
  static VEERY_GPU void clear(float (&w)[4]) { w[0] = w[1] = w[2] = w[3] = 0; }
  VEERY_GPU void cap(float (&w)[kWarpQueries][4]) const {
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j)
      w[h][j] = Element<T>::multiply(a_.softcap,
                                     hyperbolic_tangent(Element<T>::divide(w[h][j], a_.softcap)));
  }
  // Lane l of 16 adds positions l, l + 16, l + 32, ...; the other 16 lanes do another query.
  VEERY_GPU void add_weights() {
    VEERY_UNROLL(4)
    for (int i = 0; i < kWarpQueries; i += 2) {
      float sum = 0;
      VEERY_UNROLL(8)
      for (int tile = 0; tile < kBlock / 16; ++tile)
        sum = sum + weights()[weight_place(16 * tile + lane() % 16) + i + lane() / 16];
      sum = sum_of_16(sum);
      const float first = shuffle(sum, 0), second = shuffle(sum, 16);
      if (lane() % kWarpQueries == i) part_sum_ = first;
      if (lane() % kWarpQueries == i + 1) part_sum_ = second;
    }
  }

  // A lane some dimensions of each query: chains over the positions.
  VEERY_GPU void add_values(int64_t block, float (&part)[kWarpQueries][kDims]) const {
    const int64_t begin = block * kBlock, from = first_seen(begin_);
    const int low = static_cast<int>(from > begin ? from - begin : 0);
    const int high = static_cast<int>(end_ - begin < kBlock - 1 ? end_ - begin : kBlock - 1);
    const int dim = lane() * kDims < a_.value_dim ? lane() * kDims : 0;
    const uint8_t* values = shared_memory() + places_.values + 2 * dim;
    const float* own = weights();
    const auto add = [&](int p) {
      add_position(own + weight_place(p), values + 2 * p * a_.value_dim, part);
    };
    constexpr int kOdd = Element<T>::kPairs ? 1 : 0;  // comes first
    int p = low;
    if (p % 2 != 0) add(p++);
    VEERY_UNROLL(1)
    for (; p % 8 != 0 && p + 1 <= high; p += 2) {
      add(p + kOdd);
      add(p + 1 - kOdd);
    }
    VEERY_UNROLL(1)
    for (; p + 7 <= high; p += 8) {
      const float* w = own + weight_place(p);
      const uint8_t* v = values + 2 * p * a_.value_dim;
      VEERY_UNROLL(8)
      for (int i = 0; i < 8; ++i)
        add_position(w + weight_place(i ^ kOdd), v + 2 * (i ^ kOdd) * a_.value_dim, part);
    }
    VEERY_UNROLL(1)
    for (; p + 1 <= high; p += 2) {
      add(p + kOdd);
      add(p + 1 - kOdd);
    }
    if (p <= high) add(p);
  }
  static VEERY_GPU void add_position(const float* weights, const uint8_t* at,
                                     float (&part)[kWarpQueries][kDims]) {
    float w[kWarpQueries], v[kDims];
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
  /// Queries to and fro, so that each product has a factor of the one before it: three registers at
  /// once are more than a processor reads in a cycle.
  template <int kOthers, typename Product>
  static VEERY_GPU void each_product(const Product& product) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kOthers; ++i) VEERY_UNROLL(8)
    for (int e = 0; e < kWarpQueries; ++e) product(i % 2 == 0 ? e : kWarpQueries - 1 - e, i);
  }

  // As State::merge_in(), for queries that see something of the block.
  VEERY_GPU void merge_in(int64_t block, const float (&part)[kWarpQueries][kDims]) {
    const int64_t last = own_ / kBlock;
    const bool sees =
        is_query(slot(lane() % kWarpQueries)) && block >= own_first_ / kBlock && block <= last;
    const bool ends = sees && (block == last || ends_segment(block));
    Merger m = merge<T>(segment_most_, segment_sum_, part_most_, part_sum_);
    if (sees) segment_most_ = m.most, segment_sum_ = m.sum;
    apply(sees, m, part, segment_);
    m = merge<T>(most_, sum_, segment_most_, segment_sum_);
    if (ends) most_ = m.most, sum_ = m.sum, segment_most_ = kNothing, segment_sum_ = 0;
    if (ballot(ends) == 0) return;
    apply(ends, m, segment_, whole_);
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) {
      const bool clear = shuffle(ends ? 1 : 0, h) != 0;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) segment_[h][i] = clear ? 0.0F : segment_[h][i];
    }
  }
  // Lane h's own `is` and `m` are those of query h.
  static VEERY_GPU void apply(bool is, const Merger& m, const float (&other)[kWarpQueries][kDims],
                              float (&values)[kWarpQueries][kDims]) {
    const uint32_t which = ballot(is);
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) {
      const float keep = shuffle(m.keep, h), add = shuffle(m.add, h);
      if ((which >> h & 1U) == 0) continue;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i)
        values[h][i] =
            Element<T>::multiply_add(other[h][i], add, Element<T>::multiply(values[h][i], keep));
    }
  }

  VEERY_GPU void finish() const {
    const int own = slot(lane() % kWarpQueries);
    const bool sink = a_.sinks != nullptr;
    Merger m = {most_, sum_, 1, 0};
    if (sink && is_query(own)) m = merge<T>(most_, sum_, a_.sinks[head_ + own % slots_], 1);
    VEERY_UNROLL(8)
    for (int h = 0; h < kWarpQueries; ++h) {
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

  AttendPlaces places_;
  int64_t own_, own_first_;  ///< positions: of query lane() % 8, and what it sees first
  float part_most_ = kNothing, part_sum_ = 0;
  float segment_most_ = kNothing, segment_sum_ = 0, most_ = kNothing, sum_ = 0;
  float segment_[kWarpQueries][kDims] = {}, whole_[kWarpQueries][kDims] = {};
};

/// Those of the block's tile where they follow each other, else none.
VEERY_GPU TileRows own_tile(const AttendArguments& a) {
  const int64_t rows = a.run.count(a.out.rows);
  // The last tiles, which see most, come first.
  const int64_t tile = (rows + a.tile_rows - 1) / a.tile_rows - 1 - block_y();
  if (tile < 0) return {0, -1};
  const int64_t first = tile * a.tile_rows;
  const int64_t end = first + a.tile_rows < rows ? first + a.tile_rows : rows;
  if (!follow_each_other(a, first, end - 1)) return {0, -1};
  return {first, end - 1};
}

/// Those of the rows that follow each other; attend_left() does the others.
template <typename T, int kDims>
VEERY_GPU void attend_tiles(const AttendArguments& a) {
  wait_for_inputs();
  const TileRows rows = own_tile(a);
  if (rows.first <= rows.last) TileAttention<T, kDims>(a, rows, block_x()).run();
}

}  // namespace veery::gpu
