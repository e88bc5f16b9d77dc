// attend.h: blocking, memory layout and work split of attention.
//
// Algorithm (flash attention with a fixed reduction tree). Positions are divided into blocks of 128
// and segments of blocks, at fixed positions. For each tile of queries (rows of one span x heads
// that share a KV head) and each block:
//   1. scores    queries times keys, 16 positions per vector (attend_tiles-inl.h)
//   2. weights   soft cap, ALiBi, mask, online softmax (attend_softmax-inl.h)
//   3. values    weights times values, merged into the state of the segment
// Blocks merge into their segment in order, and segments into the row in order.
//
// The bits of a row do not depend on the batch: the tree is fixed by positions, and a block or
// segment that a row does not see merges as exactly nothing. So rows may share a tile, and during
// decode steps the segments of a row may be computed by different workers (split, as in flash
// decoding) and combined in a second phase.
#pragma once
#include <algorithm>
#include <limits>

#include "kernels/common/pages.h"

namespace veery::attend {

constexpr int kBlock = 128;  // positions; pages hold a whole number of blocks
constexpr int kMaxSegments = 128;
constexpr int kSegmentsPerSize = 16;
constexpr int kSplitRows = 4;     // up to this many rows, segments are split over the workers
constexpr int kTileQueries = 48;  // maximum queries of a tile; they share a block in the L1 cache
constexpr int kFewQueries = 12;   // tiles with more queries convert each block once
constexpr int kStateHeader = 16;  // floats before the values of a state, for alignment
// The largest score of an empty set; finite, so that differences are not NaN.
constexpr float kNothing = -3e38F;
static_assert(kPagePositions % kBlock == 0);

// Segments start with a length of one block; the length doubles after every 16 segments, so that
// kMaxSegments cover any context.
struct Segment {
  int64_t begin = 0;
  int64_t end = kBlock;
  int index = 0;

  void next() {
    const int64_t length = int64_t{kBlock} << (++index / kSegmentsPerSize);
    begin = end;
    end = index + 1 < kMaxSegments ? begin + length : std::numeric_limits<int64_t>::max();
  }
};
inline Segment segment_of(int64_t position) {
  Segment s;
  while (s.end <= position) s.next();
  return s;
}

// Arithmetic of the products of queries with keys and of weights with values, if these are stored
// as bf16.
enum class Products {
  kExact,    // f32 fma
  kRounded,  // queries and weights rounded to bf16; emulates kDot by fma (bf16_dot.h)
  kDot,      // bf16 dot product instructions
};

constexpr int64_t round_up_16(int64_t x) { return (x + 15) / 16 * 16; }

// Returns the dimensions of a head of queries or outputs, padded to 16.
inline int padded_dims(const Operand& o, const AttendAttr& attr) {
  return static_cast<int>(round_up_16(o.cols / attr.heads));
}

// Keys and values that are rows of the run are packed into Dispatch::work. Each span starts at a
// multiple of 16 positions, so that a row's result does not depend on other spans. Span i starts at
// first_row + 15 i rounded down to 16, which is after all earlier spans.
constexpr int64_t packed_positions(int64_t rows, int64_t spans) {
  return round_up_16(rows + 15 * spans);
}
inline int64_t packed_position(const RunShape& shape, int64_t span) {
  return (shape.spans[span].first_row + 15 * span) / 16 * 16;
}

// Consecutive rows of one span.
struct RowTile {
  int64_t row = 0;  // first row of queries and output
  int count = 0;
  int span = 0;
  int64_t position = 0;  // of the first row; without a cache, relative to its span
};

struct Problem {
  const Dispatch& d;
  const RunShape& shape;
  Products products;
  const AttendAttr& attr = d.as<AttendAttr>();
  bool cached = d.in[AttendIn::kK].layout == Layout::kKeyPages;  // else keys are rows of the run
  int64_t rows = shape.count(d.out().rows);
  int key_dims = d.in[AttendIn::kQ].cols / attr.heads;
  int value_dims = d.out().cols / attr.heads;
  int n = padded_dims(d.in[AttendIn::kQ], attr);
  int v = padded_dims(d.out(), attr);
  int group = attr.heads / attr.kv_heads;
  int tile_rows = std::max(1, kTileQueries / group);
  int64_t positions = packed_positions(shape.rows, shape.span_count);
  // Length of the list of chosen positions. A row with at most this many visible positions attends
  // to all of them.
  int64_t used =
      d.in[AttendIn::kChosen] ? d.in[AttendIn::kChosen].cols : std::numeric_limits<int64_t>::max();

  // Returns the row of the run that corresponds to row r of queries and output.
  int64_t token_row(int64_t r) const { return shape.token_row(d.out().rows, r); }
  bool split() const { return cached && rows <= kSplitRows; }
  // Returns the first position for which keys of a span are stored.
  int64_t start(int64_t span) const { return cached ? 0 : shape.spans[span].position; }
  // Returns the tile that starts at row r.
  RowTile tile(int64_t r) const {
    const int64_t first = token_row(r);
    const int span = shape.span_of[first];
    const int64_t most =
        std::min<int64_t>({shape.spans[span].end_row() - first, rows - r, tile_rows});
    const int64_t position = shape.position(first) - start(span);
    const int64_t whole = position >= used ? 1 : std::min(most, used - position);
    int count = 1;
    while (count < whole && token_row(r + count) == first + count) ++count;
    return {r, count, span, position};
  }
  // Returns whether a tile is a single row that attends to chosen positions only. For such tiles,
  // "position" everywhere means an index of the list. A list of all visible positions gives the
  // same bits as no list.
  bool sparse(const RowTile& t) const { return t.position >= used; }
  // Returns the visible positions of row i of a tile.
  PositionRange seen(const RowTile& t, int64_t i) const {
    if (sparse(t)) return {0, used - 1};
    const int64_t from = start(t.span);
    const PositionRange all = visible(attr, shape.spans[t.span], from + t.position + i);
    return {std::max<int64_t>(all.first - from, 0), all.last - from};
  }
  int64_t first_seen(const RowTile& t) const { return seen(t, 0).first; }
  int64_t last_seen(const RowTile& t) const { return seen(t, t.count - 1).last; }
  // Returns the stored state of a segment: largest score, sum of weights, weighted values.
  float* stored(int64_t row, int64_t head, int segment) const {
    return reinterpret_cast<float*>(d.work) +
           ((row * attr.heads + head) * kMaxSegments + segment) * (kStateHeader + v);
  }
  // Return packed keys or values of rows of the run; `position` is a multiple of 16.
  float* packed_keys(int64_t span, int64_t kv_head, int64_t position) const {
    return reinterpret_cast<float*>(d.work) +
           (kv_head * positions + packed_position(shape, span) + position) * n;
  }
  float* packed_values(int64_t span, int64_t kv_head, int64_t position) const {
    return reinterpret_cast<float*>(d.work) + attr.kv_heads * positions * n +
           (kv_head * positions + packed_position(shape, span) + position) * v;
  }
};

// Scratch memory of a worker. The first six arrays have one entry per query of the tile.
struct Buffers {
  float* queries;  // [query][n], times scale; Products::kDot: bf16 in the first half
  float* scores;   // [query][kBlock]; Products::kDot: weights as bf16 in the first half
  float* segment;  // [query][kStateHeader + v] states of the current segment
  float* row;      // [query][kStateHeader + v] states of the rows
  float* factors;  // [query][2] factors of the segment's and the block's state when they merge
  float* slopes;   // [query] alibi_slope() of its head
  float* keys;     // [kBlock * n] converted keys
  float* values;   // [kBlock * v] converted values

  static size_t floats(int most_queries, int n, int v) {
    return static_cast<size_t>(most_queries) * (n + kBlock + 2 * (kStateHeader + v) + 16) +
           static_cast<size_t>(kBlock) * (n + v);
  }
  Buffers(std::byte* scratch, int most, int n, int v) : queries(reinterpret_cast<float*>(scratch)) {
    scores = queries + static_cast<size_t>(most) * n;
    segment = scores + static_cast<size_t>(most) * kBlock;
    row = segment + static_cast<size_t>(most) * (kStateHeader + v);
    keys = row + static_cast<size_t>(most) * (kStateHeader + v);
    values = keys + static_cast<size_t>(kBlock) * n;
    factors = values + static_cast<size_t>(kBlock) * v;
    slopes = factors + 2 * static_cast<size_t>(most);
  }
};

}  // namespace veery::attend
