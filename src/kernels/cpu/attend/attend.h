// attend.h: how attention is cut into blocks, segments and tiles, and what a worker
// holds.
#pragma once
#include <algorithm>
#include <limits>

#include "kernels/common/pages.h"

namespace veery::attend {

constexpr int kBlock = 128;  // positions; a page holds a whole number of blocks
constexpr int kMaxSegments = 128;
constexpr int kSegmentsPerSize = 16;
constexpr int kSplitRows = 4;     // up to so many rows, segments are spread over the workers
constexpr int kTileQueries = 48;  // queries that share a block: the block stays in L1 meanwhile
constexpr int kFewQueries = 12;   // more of them read a block converted to f32
constexpr int kStateHeader = 16;  // floats before the values of a stored state, keeps them aligned
// The largest score of an empty set; finite, so that differences are numbers.
constexpr float kNothing = -3e38F;
static_assert(kPagePositions % kBlock == 0);

// Segments are one block long at first and double in length after every 16, so that few are enough
// for any context.
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

// How queries are multiplied by keys and weights by values where these are stored as bf16.
enum class Products {
  kExact,    // by fma of f32
  kRounded,  // queries and weights as bf16; by fma what kDot does, see bf16_dot.h
  kDot,      // by the processor's dot products of bf16
};

constexpr int64_t round_up_16(int64_t x) { return (x + 15) / 16 * 16; }

// Dimensions of a head of queries or of the output, as the kernels take them.
inline int padded_dims(const Operand& o, const AttendAttr& attr) {
  return static_cast<int>(round_up_16(o.cols / attr.heads));
}

// Keys and values of rows of the run are laid out in Dispatch::work, each span from a tile of 16
// on, so that what a row sees does not depend on other spans. Span i begins at the tile in which
// position first_row + 15 i lies: beyond all those before it, and no sum over them is needed.
constexpr int64_t laid_out_positions(int64_t rows, int64_t spans) {
  return round_up_16(rows + 15 * spans);
}
inline int64_t laid_out_position(const Slots& slots, int64_t span) {
  return (slots.spans[span].first_row + 15 * span) / 16 * 16;
}

// Rows of one span, neighbours in the run.
struct RowTile {
  int64_t row = 0;  // of queries and output
  int count = 0;
  int span = 0;
  int64_t position = 0;  // of the first row; of rows of the run, in their span
};

struct Problem {
  const Dispatch& d;
  const Slots& slots;
  Products products;
  const AttendAttr& attr = d.as<AttendAttr>();
  bool cached = d.in[AttendIn::kK].layout == Layout::kKeyPages;  // or rows of the run
  int64_t rows = slots.count(d.out().rows);
  int key_dims = d.in[AttendIn::kQ].cols / attr.heads;  // of a query and a key
  int value_dims = d.out().cols / attr.heads;
  int n = padded_dims(d.in[AttendIn::kQ], attr);
  int v = padded_dims(d.out(), attr);
  int group = attr.heads / attr.kv_heads;
  int tile_rows = std::max(1, kTileQueries / group);
  int64_t positions = laid_out_positions(slots.rows, slots.span_count);
  // Of so many positions and fewer a row attends to all that it sees.
  int64_t used =
      d.in[AttendIn::kChosen] ? d.in[AttendIn::kChosen].cols : std::numeric_limits<int64_t>::max();

  // The row of the run that row `r` of queries and output is.
  int64_t token_row(int64_t r) const { return slots.token_row(d.out().rows, r); }
  bool split() const { return cached && rows <= kSplitRows; }
  // The position at which what is stored of a span begins.
  int64_t start(int64_t span) const { return cached ? 0 : slots.spans[span].position; }
  // The tile that starts at row `r`.
  RowTile tile(int64_t r) const {
    const int64_t first = token_row(r);
    const int span = slots.span_of[first];
    const int64_t most =
        std::min<int64_t>({slots.spans[span].end_row() - first, rows - r, tile_rows});
    const int64_t position = slots.position(first) - start(span);
    const int64_t whole = position >= used ? 1 : std::min(most, used - position);
    int count = 1;
    while (count < whole && token_row(r + count) == first + count) ++count;
    return {r, count, span, position};
  }
  // Whether a tile is one row that attends to chosen positions. They stand side by side in the
  // order of the list, and are meant wherever its positions are said: a list of all that a row
  // sees would give the bits that it has without one.
  bool sparse(const RowTile& t) const { return t.position >= used; }
  // What the row that is `i` rows behind the first of a tile sees.
  PositionRange seen(const RowTile& t, int64_t i) const {
    if (sparse(t)) return {0, used - 1};
    const int64_t from = start(t.span);
    const PositionRange all = visible(attr, slots.spans[t.span], from + t.position + i);
    return {std::max<int64_t>(all.first - from, 0), all.last - from};
  }
  int64_t first_seen(const RowTile& t) const { return seen(t, 0).first; }
  int64_t last_seen(const RowTile& t) const { return seen(t, t.count - 1).last; }
  // Of a query among rows and heads of a tile: its largest score, sum of weights, and values.
  float* stored(int64_t row, int64_t head, int segment) const {
    return reinterpret_cast<float*>(d.work) +
           ((row * attr.heads + head) * kMaxSegments + segment) * (kStateHeader + v);
  }
  // Of rows of the run, from a position of a span that is a multiple of 16.
  float* laid_out_keys(int64_t span, int64_t kv_head, int64_t position) const {
    return reinterpret_cast<float*>(d.work) +
           (kv_head * positions + laid_out_position(slots, span) + position) * n;
  }
  float* laid_out_values(int64_t span, int64_t kv_head, int64_t position) const {
    return reinterpret_cast<float*>(d.work) + attr.kv_heads * positions * n +
           (kv_head * positions + laid_out_position(slots, span) + position) * v;
  }
};

// What a worker's scratch holds for the queries of a tile, [query][..] each.
struct Buffers {
  float* queries;  // [n], times scale; for Products::kDot as bf16 in the first half
  float* scores;   // [kBlock]; weights for Products::kDot as bf16 in the first half
  float* segment;  // states of the segment at work: [kStateHeader + v]
  float* row;      // states of the rows: [kStateHeader + v]
  float* factors;  // [2]: of the segment's state and of the block's in their merger
  float* slopes;   // [1]: of its head, see alibi_slope()
  float* keys;     // [kBlock * n], converted
  float* values;   // [kBlock * v], converted

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
