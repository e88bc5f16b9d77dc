// Attention over the paged KV cache, and over rows of the run (encoders). The algorithm is
// described in attend.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attend/attend.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/attend/attend_rows-inl.h"
#include "kernels/cpu/attend/attend_softmax-inl.h"
#include "kernels/cpu/attend/attend_tiles-inl.h"
//
#include <cmath>

#include "kernels/common/float_kernels.h"
#include "kernels/common/formulas.h"
#include "kernels/cpu/attend/attend.h"
#include "kernels/cpu/attend/gather_keys.h"
#include "kernels/cpu/simd/flush_subnormals.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// The keys or values of a block of positions for one KV head.
struct Stored {
  const std::byte* at;
  KvFormat format;
};
HWY_INLINE Stored stored_block(const Problem& p, bool values, const RowTile& tile, int kv_head,
                               int64_t begin) {
  if (!p.cached) {
    const float* at = values ? p.packed_values(tile.span, kv_head, begin)
                             : p.packed_keys(tile.span, kv_head, begin);
    return {reinterpret_cast<const std::byte*>(at), KvFormat::kF32};
  }
  const Operand& cache = p.d.in[values ? AttendIn::kV : AttendIn::kK];
  const int64_t size = cache.cols / cache.rows;
  const std::byte* page = page_of(cache, p.shape, p.shape.spans[tile.span].sequence, begin);
  return {page + byte_size(cache.dtype, key_offset(kv_head, begin, size)),
          kv_format(cache.dtype, p.products)};
}

// Rows [first, end) of n elements. Formats that pair rows treat the partner outside the range as 0.
struct Rows {
  int n, first, end;
};
template <KvFormat kFormat>
HWY_INLINE void to_floats(const std::byte* at, const Rows& rows, float* buffer) {
  for (int64_t i = int64_t{rows.first} * rows.n; i < int64_t{rows.end} * rows.n; i += 16)
    store(buffer + i, load_as<kFormat>(at + i * kBytes<kFormat>));
}
HWY_INLINE void to_rounded_floats(const std::byte* at, const Rows& rows, float* buffer) {
  to_floats<KvFormat::kBF16>(at, rows, buffer);
  if (rows.first % 2 != 0) std::fill_n(buffer + int64_t{rows.first - 1} * rows.n, rows.n, 0.0F);
  if (rows.end % 2 != 0) std::fill_n(buffer + int64_t{rows.end} * rows.n, rows.n, 0.0F);
}
HWY_INLINE void to_pairs(const std::byte* at, const Rows& rows, float* buffer) {
  for (int64_t row = rows.first / 2 * 2; row < rows.end; row += 2) {
    const I32 kept = set(static_cast<int32_t>((row < rows.first ? 0 : 0x0000ffffU) |
                                              (row + 1 == rows.end ? 0 : 0xffff0000U)));
    const std::byte* even = at + row * rows.n * 2;
    for (int64_t i = 0; i < rows.n; i += 16)
      store_int(buffer + row / 2 * rows.n + i,
                bit_and(load_pairs(even + 2 * i, even + 2 * (rows.n + i)), kept));
  }
}
// Converts a block once if many queries read it.
HWY_INLINE Stored converted(const Stored& from, const Rows& rows, float* buffer) {
  KvFormat format = KvFormat::kF32;
  switch (from.format) {
    case KvFormat::kF16: to_floats<KvFormat::kF16>(from.at, rows, buffer); break;
    case KvFormat::kBF16: to_floats<KvFormat::kBF16>(from.at, rows, buffer); break;
    case KvFormat::kRoundedBF16:
      to_rounded_floats(from.at, rows, buffer);
      format = KvFormat::kRoundedF32;
      break;
    case KvFormat::kDotBF16:
      to_pairs(from.at, rows, buffer);
      format = KvFormat::kPairs;
      break;
    default: return from;
  }
  return {reinterpret_cast<const std::byte*>(buffer), format};
}

// Returns tiles [first, end) of keys as rows: one row per dimension of a tile, 16 positions long.
HWY_INLINE Rows rows_of_tiles(int first, int end, int n) { return {16, first * n, end * n}; }

// Converts key tiles [first, end) to f32.
HWY_INLINE Stored as_floats(const Stored& from, int first, int end, int n, float* buffer) {
  if (from.format != KvFormat::kQ8_0) return converted(from, rows_of_tiles(first, end, n), buffer);
  const auto* tiles = reinterpret_cast<const Q8Tile*>(from.at);
  for (int i = first * n; i < end * n; ++i) {
    const Q8Tile& tile = tiles[i / 32];
    const F32 scale = load_f16(reinterpret_cast<const std::byte*>(tile.scales));
    const auto* codes = reinterpret_cast<const std::byte*>(tile.codes + i % 32 * 16);
    store(buffer + int64_t{i} * 16, mul(to_float(load_i8(codes)), scale));
  }
  return {reinterpret_cast<const std::byte*>(buffer), KvFormat::kF32};
}

// Returns the first v dimensions of the keys in tiles [first, end) as values [position][dimension]
// (latent attention, whose values are part of the keys).
HWY_INLINE Stored transposed_values(const Stored& keys, int first, int end, int n, int v,
                                    float* buffer) {
  const auto* from = reinterpret_cast<const float*>(keys.at);
  for (int t = first; t < end; ++t)
    for (int i = 0; i < v; i += 16)
      transpose(from + (int64_t{t} * n + i) * 16, 16, buffer + int64_t{t} * 16 * v + i, v);
  return {reinterpret_cast<const std::byte*>(buffer), KvFormat::kF32};
}

// Gathers the keys of elements [begin, begin + last] of the list of chosen positions, as f32.
HWY_INLINE Stored chosen_keys(const Problem& p, const RowTile& tile, int kv_head, int64_t begin,
                              int last, float* buffer) {
  const int32_t* positions = p.d.in[AttendIn::kChosen].row<int32_t>(tile.row) + begin;
  gather_keys(p.d.in[AttendIn::kK], p.shape, p.shape.spans[tile.span].sequence, kv_head, positions,
              last + 1, buffer);
  return {reinterpret_cast<const std::byte*>(buffer), KvFormat::kF32};
}

// A block of keys and values in the format that the block kernels read.
struct Block {
  Stored keys, values;
  BlockPart key_part, value_part;
};
Block block_of(const Problem& p, const RowTile& tile, int kv_head, int64_t begin,
               const Buffers& b) {
  const int low = static_cast<int>(std::max<int64_t>(p.first_seen(tile) - begin, 0));
  const int high = static_cast<int>(std::min<int64_t>(p.last_seen(tile) - begin, kBlock - 1));
  const int first = low / 16;
  const int end = high / 16 + 1;
  const bool sparse = p.sparse(tile);
  Block block{sparse ? chosen_keys(p, tile, kv_head, begin, high, b.keys)
                     : stored_block(p, false, tile, kv_head, begin),
              sparse ? Stored{} : stored_block(p, true, tile, kv_head, begin),
              {nullptr, 0, p.n, first, end},
              {nullptr, 0, p.v, low, high + 1}};
  if (p.attr.shared > 0) {
    if (!sparse) block.keys = as_floats(block.keys, first, end, p.n, b.keys);
    block.values = transposed_values(block.keys, first, end, p.n, p.v, b.values);
  } else if (tile.count * p.group > kFewQueries) {
    block.keys = converted(block.keys, rows_of_tiles(first, end, p.n), b.keys);
    block.values = converted(block.values, {p.v, low, high + 1}, b.values);
    if (in_pairs(block.values.format)) {
      block.value_part.first = low / 2 * 2;
      block.value_part.end = (high + 2) / 2 * 2;
    }
  } else if (const int64_t next = begin + kBlock; next <= p.last_seen(tile)) {
    block.key_part.ahead = stored_block(p, false, tile, kv_head, next).at - block.keys.at;
    block.value_part.ahead = stored_block(p, true, tile, kv_head, next).at - block.values.at;
  }
  block.key_part.at = block.keys.at;
  block.value_part.at = block.values.at;
  return block;
}

// Computes the block at position `begin` and merges it into the segment states of the tile's
// queries.
void merge_block(const Problem& p, const RowTile& tile, int kv_head, int64_t begin,
                 const Buffers& b) {
  const Block block = block_of(p, tile, kv_head, begin, b);
  const int queries = tile.count * p.group;
  const BlockKernels& for_keys = block_kernels(block.keys.format);
  const BlockKernels& for_values = block_kernels(block.values.format);
  const WeighFn weigh_scores = weigh_for(block.values.format);
  for (int i = 0, r; i < queries; i += r) {
    r = take(queries - i);
    float* scores = b.scores + i * kBlock;
    float* states = b.segment + i * (kStateHeader + p.v);
    for_keys.score[r - 1](b.queries + i * p.n, block.key_part, scores);
    for (int k = 0; k < r; ++k) {
      const int64_t row = (i + k) / p.group;
      const PositionRange all = p.seen(tile, row);
      const Visibility seen{static_cast<int>(std::clamp<int64_t>(all.first - begin, 0, kBlock)),
                            static_cast<int>(std::clamp<int64_t>(all.last - begin, -1, kBlock - 1)),
                            b.slopes[i + k], static_cast<float>(tile.position + row - begin)};
      weigh_scores(p.attr, scores + k * kBlock, block.key_part.first, block.key_part.end, seen,
                   states + k * (kStateHeader + p.v), b.factors + 2 * (i + k));
    }
    for_values.value[r - 1](scores, block.value_part, b.factors + 2 * i, states + kStateHeader);
  }
}

void clear(float* states, int queries, int n) {
  for (int i = 0; i < queries; ++i, states += kStateHeader + n) {
    states[0] = kNothing;
    std::fill(states + 1, states + kStateHeader + n, 0.0F);
  }
}

// Stores dimensions i to i + 15 of a query in the format that is multiplied with `keys`.
HWY_INLINE void store_query(KvFormat keys, float* query, int i, F32 q) {
  if (!in_pairs(keys)) return store(query + i, q);
  if (!is_dot(keys)) return store(query + i, as_float(round_to_bf16(flush(q))));
#if HWY_TARGET == HWY_AVX3
  store_bf16(query + i / 2, q);
#endif
}

void load_queries(const Problem& p, const RowTile& tile, int kv_head, const Buffers& b) {
  const KvFormat format = kv_format(p.d.in[AttendIn::kK].dtype, p.products);
  for (int r = 0; r < tile.count; ++r) {
    const float* q = p.d.in[AttendIn::kQ].row<float>(tile.row + r) + kv_head * p.group * p.key_dims;
    float* to = b.queries + r * p.group * p.n;
    for (int h = 0; h < p.group; ++h)
      for (int i = 0; i < p.n; i += 16)
        store_query(format, to + h * p.n, i,
                    mul(load_some(q + h * p.key_dims + i, p.key_dims - i), set(p.attr.scale)));
    for (int h = 0; h < p.group; ++h)
      b.slopes[r * p.group + h] = alibi_slope(p.attr, int64_t{kv_head} * p.group + h);
  }
}

// Computes the states of the tile's queries over one segment, in b.segment.
void find_segment(const Problem& p, const RowTile& tile, int kv_head, const Segment& s,
                  const Buffers& b) {
  clear(b.segment, tile.count * p.group, p.v);
  const int64_t last = std::min(p.last_seen(tile), s.end - 1);
  for (int64_t begin = std::max(p.first_seen(tile) / kBlock * kBlock, s.begin); begin <= last;
       begin += kBlock)
    merge_block(p, tile, kv_head, begin, b);
}

HWY_INLINE void merge_state(const float* added, int n, float* state) {
  const Merged m = merge(state[0], state[1], added[0], added[1]);
  state[0] = m.largest;
  state[1] = m.sum;
  for (int i = kStateHeader; i < kStateHeader + n; i += 16) {
    const F32 kept = mul(load(state + i), set(m.factors[0]));
    store(state + i, fma(load(added + i), set(m.factors[1]), kept));
  }
}

// Normalises a state and writes the outputs. An attention sink is merged last, as a position whose
// value vector is zero.
HWY_INLINE void finish(const Problem& p, int64_t row, int64_t head, const float* state) {
  float* out = p.d.out().row<float>(row) + head * p.value_dims;
  const bool sink = static_cast<bool>(p.d.in[AttendIn::kSinks]);
  const Merged m = sink ? merge(state[0], state[1], p.d.in[AttendIn::kSinks].row<float>(0)[head], 1)
                        : Merged{state[0], state[1], {1, 0}};
  for (int i = 0; i < p.v; i += 16) {
    const F32 values = load(state + kStateHeader + i);
    store_some(out + i, div(sink ? mul(values, set(m.factors[0])) : values, set(m.sum)),
               p.value_dims - i);
  }
  if (const Operand& log_sum = p.d.outputs[AttendOut::kLogSum])
    log_sum.row<float>(row)[head] = static_cast<float>(double{m.largest} + std::log(double{m.sum}));
}

// Computes the outputs of a tile for one KV head.
void attend_tile(const Problem& p, const RowTile& tile, int kv_head, const Buffers& b) {
  const int queries = tile.count * p.group;
  const int size = kStateHeader + p.v;
  load_queries(p, tile, kv_head, b);
  clear(b.row, queries, p.v);
  for (Segment s = segment_of(p.first_seen(tile)); s.begin <= p.last_seen(tile); s.next()) {
    find_segment(p, tile, kv_head, s, b);
    for (int i = 0; i < queries; ++i) merge_state(b.segment + i * size, p.v, b.row + i * size);
  }
  for (int i = 0; i < queries; ++i)
    finish(p, tile.row + i / p.group, kv_head * p.group + i % p.group, b.row + i * size);
}

// Computes one segment of a tile, and stores the states for combine_segments().
void attend_segment(const Problem& p, const RowTile& tile, int kv_head, const Segment& s,
                    const Buffers& b) {
  load_queries(p, tile, kv_head, b);
  find_segment(p, tile, kv_head, s, b);
  const int size = kStateHeader + p.v;
  for (int i = 0; i < tile.count * p.group; ++i)
    std::copy_n(b.segment + i * size, size,
                p.stored(tile.row + i / p.group, kv_head * p.group + i % p.group, s.index));
}

// Returns the cost of a tile, or of one segment of it: the number of visible positions of its rows.
int64_t cost(const Problem& p, const RowTile& t) {
  return t.count * ((p.last_seen(t) - p.first_seen(t)) + kBlock);
}
int64_t cost(const Problem& p, const RowTile& t, const Segment& s) {
  return t.count * (std::min(p.last_seen(t), s.end - 1) - std::max(p.first_seen(t), s.begin) + 16);
}

// Distributes items over the workers so that all have about the same total cost: an item belongs to
// the worker whose share of the total contains the middle of the item.
struct CostShare {
  int64_t total;
  const Worker& worker;
  int64_t done = 0;
  bool contains(int64_t item_cost) {
    const int64_t middle = 2 * done + item_cost;
    done += item_cost;
    return middle * worker.count / (2 * total) == worker.index;
  }
};

void attend_tiles(const Problem& p, const Worker& worker) {
  const Buffers b(worker.scratch, p.tile_rows * p.group, p.n, p.v);
  int64_t total = 0;
  for (int64_t r = 0; r < p.rows;) {
    const RowTile tile = p.tile(r);
    r += tile.count;
    if (!p.split()) {
      total += cost(p, tile);
      continue;
    }
    for (Segment s = segment_of(p.first_seen(tile)); s.begin <= p.last_seen(tile); s.next())
      total += cost(p, tile, s);
  }
  CostShare own{total * p.attr.kv_heads, worker};
  for (int h = 0; h < p.attr.kv_heads; ++h) {
    for (int64_t r = 0; r < p.rows;) {
      const RowTile tile = p.tile(r);
      r += tile.count;
      if (!p.split()) {
        if (own.contains(cost(p, tile))) attend_tile(p, tile, h, b);
        continue;
      }
      for (Segment s = segment_of(p.first_seen(tile)); s.begin <= p.last_seen(tile); s.next())
        if (own.contains(cost(p, tile, s))) attend_segment(p, tile, h, s, b);
    }
  }
}

void combine_segments(const Problem& p, const Worker& worker) {
  if (!p.split()) return;
  auto* state = reinterpret_cast<float*>(worker.scratch);
  const Share items = share(p.rows * p.attr.heads, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    const int64_t r = i / p.attr.heads;
    const int64_t h = i % p.attr.heads;
    const PositionRange seen = p.seen(p.tile(r), 0);
    clear(state, 1, p.v);
    for (Segment s = segment_of(seen.first); s.begin <= seen.last; s.next())
      merge_state(p.stored(r, h, s.index), p.v, state);
    finish(p, r, h, state);
  }
}

// With bf16 products, subnormal numbers are flushed to 0 on all targets, as VDPBF16PS does.
template <Products kProducts, void (*kPhase)(const Problem&, const Worker&)>
void phase(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem p{d, shape, kProducts};
  if constexpr (kProducts == Products::kExact) return kPhase(p, worker);
  const FlushSubnormals flushed;
  kPhase(p, worker);
}

template <Products kProducts>
constexpr KernelPhases kPhases = {phase<kProducts, attend_tiles>,
                                  phase<kProducts, combine_segments>};

}  // namespace

extern const KernelPhases kAttendPhases[3], kAttendRowsPhases;
constexpr KernelPhases kAttendPhases[3] = {kPhases<Products::kExact>, kPhases<Products::kRounded>,
                                           kPhases<Products::kDot>};
constexpr KernelPhases kAttendRowsPhases = {phase<Products::kExact, pack_rows>,
                                            phase<Products::kExact, attend_tiles>};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

size_t stored_bytes(const Dispatch& d, const RunExtent& run) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t state = attend::kStateHeader + d.out().cols / attr.heads;
  const int64_t most = std::min<int64_t>(run.rows, attend::kSplitRows);
  return static_cast<size_t>(most * attr.heads * attend::kMaxSegments * state) * sizeof(float);
}
size_t buffer_bytes(const Dispatch& d, const RunExtent&) {
  const auto& attr = d.as<AttendAttr>();
  const int group = attr.heads / attr.kv_heads;
  const int queries = std::max(1, attend::kTileQueries / group) * group;
  return attend::Buffers::floats(queries, attend::padded_dims(d.in[AttendIn::kQ], attr),
                                 attend::padded_dims(d.out(), attr)) *
         sizeof(float);
}
size_t packed_bytes(const Dispatch& d, const RunExtent& run) {
  const auto& attr = d.as<AttendAttr>();
  const int dims =
      attend::padded_dims(d.in[AttendIn::kQ], attr) + attend::padded_dims(d.out(), attr);
  return static_cast<size_t>(attend::packed_positions(run.rows, run.spans) * attr.kv_heads * dims) *
         sizeof(float);
}

bool takes(const Dispatch& d) {
  const int32_t heads = d.as<AttendAttr>().heads;
  return is_matrix(d.in[AttendIn::kQ]) && is_cache(d.in[AttendIn::kK]) &&
         is_cache(d.in[AttendIn::kV]) && absent_or_matrix(d.in[AttendIn::kSinks]) &&
         is_matrix(d.out()) && absent_or_matrix(d.outputs[AttendOut::kLogSum]) &&
         d.in[AttendIn::kQ].cols / heads % 16 == 0 && d.out().cols / heads % 16 == 0;
}
// Returns whether bf16 products apply. Latent attention (attr.shared) always converts to f32.
bool rounds(const Dispatch& d, const KernelChoice& choice) {
  return takes(d) && !choice.exact && d.as<AttendAttr>().shared == 0 &&
         (d.in[AttendIn::kK].dtype == DType::kBF16 || d.in[AttendIn::kV].dtype == DType::kBF16);
}
template <attend::Products kProducts>
bool accepts(const Dispatch& d, const KernelChoice& choice) {
  if constexpr (kProducts == attend::Products::kExact) return takes(d) && !rounds(d, choice);
  const bool dot = kProducts == attend::Products::kDot;
  return rounds(d, choice) && uses_bf16_dot(choice.target) == dot;
}

bool takes_rows(const Dispatch& d, const KernelChoice&) {
  return d.as<AttendAttr>().shared == 0 && is_matrix(d.in[AttendIn::kQ]) &&
         is_matrix(d.in[AttendIn::kK]) && is_matrix(d.in[AttendIn::kV]) &&
         absent_or_matrix(d.in[AttendIn::kSinks]) && is_matrix(d.out()) &&
         absent_or_matrix(d.outputs[AttendOut::kLogSum]);
}

template <attend::Products kProducts>
constexpr KernelRow row(Target target, std::string_view name, const KernelPhases* phases) {
  return {op::kAttend,
          target,
          accepts<kProducts>,
          {name, phases[static_cast<size_t>(kProducts)], stored_bytes, buffer_bytes}};
}

constexpr KernelRow row_of_rows(Target target, std::string_view name, const KernelPhases& phases) {
  return {op::kAttend,
          target,
          takes_rows,
          {.name = name,
           .phases = phases,
           .work = packed_bytes,
           .scratch = buffer_bytes,
           .main_phase = 1}};
}

#define VEERY_ROW(copy, target, suffix)                                                    \
  row<attend::Products::kExact>(target, "attend_" suffix, copy::kAttendPhases),            \
      row<attend::Products::kRounded>(target, "attend_bf16_" suffix, copy::kAttendPhases), \
      row_of_rows(target, "attend_rows_" suffix, copy::kAttendRowsPhases)
const KernelRow kRows[] = {
#if !defined(__aarch64__)
    row<attend::Products::kDot>(Target::kAvx512, "attend_bf16_avx512_bf16", N_AVX3::kAttendPhases),
#endif
    VEERY_EACH_F32_TARGET(VEERY_ROW)};
#undef VEERY_ROW

}  // namespace

KernelRows fast_attend() { return kRows; }

}  // namespace veery
#endif
