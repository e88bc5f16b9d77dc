// Chooses the positions of sparse attention. The score of a position is the weighted sum, over the
// heads, of dot products of query and key. Both sums are sequential, and the lowest position wins
// ties, so the result does not depend on the work split. Rows that see no more positions than may
// be chosen are not scored. With few rows the positions are split over the workers, and their
// candidates are merged in a second phase.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attend/choose_positions.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/attend/attend_softmax-inl.h"
#include "kernels/cpu/attend/attend_tiles-inl.h"
//
#include <numeric>

#include "kernels/common/float_kernels.h"
#include "kernels/common/top_positions.h"

#ifndef VEERY_KERNELS_CPU_CHOOSE_POSITIONS_CC
#define VEERY_KERNELS_CPU_CHOOSE_POSITIONS_CC
namespace veery::choose {

// Scratch memory of a worker.
struct Buffers {
  float* scores;      // [heads][kBlock]
  float* sums;        // [kBlock]
  uint64_t* entries;  // [TopPositions::entries(used)]

  static size_t bytes(const ChooseAttr& attr) {
    return static_cast<size_t>(attr.heads + 1) * attend::kBlock * sizeof(float) +
           static_cast<size_t>(TopPositions::entries(attr.used)) * sizeof(uint64_t);
  }
  Buffers(std::byte* scratch, const ChooseAttr& attr) : scores(reinterpret_cast<float*>(scratch)) {
    sums = scores + int64_t{attr.heads} * attend::kBlock;
    entries = reinterpret_cast<uint64_t*>(sums + attend::kBlock);
  }
};

// Returns a worker's candidates for a row, in Dispatch::work: their number, then the entries.
inline uint64_t* found(const Dispatch& d, int64_t row, int workers, int worker) {
  return reinterpret_cast<uint64_t*>(d.work) +
         (row * workers + worker) * (d.as<ChooseAttr>().used + 1);
}

// Writes all `seen` <= `most` visible positions, padded with -1.
inline void take_all(int64_t seen, int64_t most, int32_t* out) {
  std::iota(out, out + seen, 0);
  std::fill(out + seen, out + most, -1);
}

}  // namespace veery::choose
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// Computes b.sums, the scores of the block of positions from `begin` on; `count` of them are
// visible.
void score_positions(const Dispatch& d, const RunShape& shape, int64_t row, int64_t begin,
                     int64_t count, const choose::Buffers& b) {
  const auto& attr = d.as<ChooseAttr>();
  const Operand& keys = d.in[ChooseIn::kK];
  const int sequence = shape.sequence(shape.token_row(d.out().rows, row));
  const std::byte* page = page_of(keys, shape, sequence, begin);
  const int tiles = static_cast<int>((count + 15) / 16);
  const BlockPart part{page + byte_size(keys.dtype, key_offset(0, begin, keys.cols)), 0, keys.cols,
                       0, tiles};
  const BlockKernels& kernels = block_kernels(kv_format(keys.dtype, Products::kExact));
  const float* q = d.in[ChooseIn::kQ].row<float>(row);
  for (int h = 0, r; h < attr.heads; h += r) {
    r = take(attr.heads - h);
    kernels.score[r - 1](q + int64_t{h} * keys.cols, part, b.scores + int64_t{h} * kBlock);
  }
  const float* weights = d.in[ChooseIn::kWeights].row<float>(row);
  for (int t = 0; t < tiles; ++t) {
    F32 sum = zero();
    for (int h = 0; h < attr.heads; ++h)
      sum = fma(max(load(b.scores + int64_t{h} * kBlock + t * 16), zero()),
                set(weights[h] * attr.scale), sum);
    store(b.sums + t * 16, sum);
  }
}

// Adds positions [begin, end) with their scores to `top`. `begin` is a multiple of kBlock.
void add_positions(const Dispatch& d, const RunShape& shape, int64_t row, int64_t begin,
                   int64_t end, const choose::Buffers& b, TopPositions& top) {
  for (; begin < end; begin += kBlock) {
    const int64_t count = std::min<int64_t>(end - begin, kBlock);
    score_positions(d, shape, row, begin, count, b);
    for (int64_t i = 0; i < count; ++i) top.add(b.sums[i], static_cast<int32_t>(begin + i));
  }
}

int64_t seen_by(const Dispatch& d, const RunShape& shape, int64_t row) {
  return shape.position(shape.token_row(d.out().rows, row)) + 1;
}

}  // namespace

void fast_choose_parts(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ChooseAttr>();
  const choose::Buffers b(worker.scratch, attr);
  const int64_t rows = shape.count(d.out().rows);
  const bool split = rows <= kSplitRows;
  const Share mine = split ? Share{0, rows} : share(rows, 1, worker);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    const int64_t seen = seen_by(d, shape, row);
    if (seen <= attr.used) {
      if (!split || worker.index == 0) choose::take_all(seen, attr.used, d.out().row<int32_t>(row));
      continue;
    }
    TopPositions top(b.entries, attr.used);
    const Share part = split ? share(seen, kBlock, worker) : Share{0, seen};
    add_positions(d, shape, row, part.begin, part.end, b, top);
    if (!split) {
      top.write(d.out().row<int32_t>(row));
      continue;
    }
    const std::span<const uint64_t> kept = top.kept();
    uint64_t* to = choose::found(d, row, worker.count, worker.index);
    to[0] = kept.size();
    std::copy(kept.begin(), kept.end(), to + 1);
  }
}

void fast_choose_merged(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ChooseAttr>();
  const int64_t rows = shape.count(d.out().rows);
  if (rows > kSplitRows) return;
  const choose::Buffers b(worker.scratch, attr);
  const Share mine = share(rows, 1, worker);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    if (seen_by(d, shape, row) <= attr.used) continue;
    TopPositions top(b.entries, attr.used);
    for (int i = 0; i < worker.count; ++i) {
      const uint64_t* from = choose::found(d, row, worker.count, i);
      top.add({from + 1, static_cast<size_t>(from[0])});
    }
    top.write(d.out().row<int32_t>(row));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

size_t found_bytes(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = std::min<int64_t>(run.rows, attend::kSplitRows);
  return static_cast<size_t>(rows * run.workers * (d.as<ChooseAttr>().used + 1)) * sizeof(uint64_t);
}
size_t buffer_bytes(const Dispatch& d, const RunExtent&) {
  return choose::Buffers::bytes(d.as<ChooseAttr>());
}

bool takes(const Dispatch& d, const KernelChoice&) {
  const Operand& keys = d.in[ChooseIn::kK];
  return is_matrix(d.in[ChooseIn::kQ]) && is_matrix(d.in[ChooseIn::kWeights]) && is_cache(keys) &&
         is_matrix(d.out(), DType::kI32) && keys.cols % 16 == 0;
}

#define VEERY_ROW(copy, target, suffix)                                                \
  {                                                                                    \
    op::kChoosePositions, target, takes, {                                             \
      "choose_positions_" suffix, {copy::fast_choose_parts, copy::fast_choose_merged}, \
          found_bytes, buffer_bytes                                                    \
    }                                                                                  \
  }
constexpr KernelRow kRows[] = {VEERY_EACH_F32_TARGET(VEERY_ROW)};
#undef VEERY_ROW

}  // namespace

KernelRows fast_choose_positions() { return kRows; }

}  // namespace veery
#endif
