#include "kernels/cpu/tensor/run_program.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/tensor/tile.h"

namespace veery {
namespace {

// Elements that are worth waking the workers for, and tiles that a worker takes at a time.
constexpr int64_t kParallel = 1 << 15;
constexpr int64_t kTilesAtOnce = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t product(const ElementProgram& program, int from, int to) {
  int64_t count = 1;
  for (int i = from; i < to; ++i) count *= program.shape[static_cast<size_t>(i)];
  return count;
}

// Calls body(begin, end) for parts of [0, items), on all workers if there is enough to do.
template <typename Body>
void each_item(ThreadPool& pool, int64_t items, int64_t elements_each, const Body& body) {
  if (items * elements_each < kParallel) return body(int64_t{0}, items);
  const int64_t grain =
      std::max<int64_t>(1, kTilesAtOnce * kTile / std::max<int64_t>(elements_each, 1));
  pool.parallel_for(items, grain, body);
}

// Without a reduction. A tile does not cross the end of a long row, so that rows are read in place.
void run_elements(const LoweredProgram& lowered, ThreadPool& pool) {
  const ElementProgram& program = lowered.program;
  const int64_t size = program.size();
  const int64_t columns =
      program.rank > 0 ? program.shape[static_cast<size_t>(program.rank - 1)] : 1;
  const int64_t span = columns >= kTile ? columns : size;
  const int64_t tiles = ceil_div(span, kTile);
  each_item(pool, size / span * tiles, kTile, [&](int64_t begin, int64_t end) {
    Tile tile(lowered);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % tiles * kTile;
      tile.compute({.dimensions = program.rank,
                    .begin = item / tiles * span + first,
                    .count = std::min(kTile, span - first)});
    }
  });
}

/// The reduction of a program: the sizes, and where the results of chunks go.
class Reducer {
 public:
  Reducer(const LoweredProgram& lowered, Target target, ThreadPool& pool)
      : lowered_(lowered),
        program_(lowered.program),
        reduction_(*program_.reduction),
        kernel_(find_reduce_kernel(target, reduction_.op, reduction_.type)),
        target_(target),
        pool_(pool),
        bytes_(info(reduction_.type).bytes),
        kept_dimensions_(program_.rank - reduction_.dimensions),
        kept_(product(program_, 0, kept_dimensions_)),
        reduced_(product(program_, kept_dimensions_, program_.rank)),
        chunks_(ceil_div(reduced_, kReduceChunk)) {}

  void run() {
    if (kept_ == 0) return;
    results_.resize(static_cast<size_t>(kept_ * std::max<int64_t>(chunks_, 1) * bytes_));
    if (reduced_ == 0) {
      kernel_.clear(results_.data(), kept_);
    } else if (inner_is_kept()) {
      reduce_outer();
    } else if (reduced_ < kTile) {
      reduce_short_rows();
    } else {
      reduce_rows();
    }
    write();
  }

 private:
  std::byte* result(int64_t kept, int64_t chunk) {
    return results_.data() + (kept * std::max<int64_t>(chunks_, 1) + chunk) * bytes_;
  }
  // Whether memory is contiguous over kept elements rather than over reduced ones.
  bool inner_is_kept() const {
    if (kept_dimensions_ == 0 || reduction_.dimensions == 0) return false;
    int64_t kept = 0, reduced = 0;
    for (const ElementTransfer& in : program_.inputs) {
      const auto& strides = in.elements.strides;
      kept += strides[static_cast<size_t>(kept_dimensions_ - 1)] == 1 ? 1 : 0;
      reduced += strides[static_cast<size_t>(program_.rank - 1)] == 1 ? 1 : 0;
    }
    return kept > reduced;
  }
  // Combines the lanes as a binary tree. Lane i begins at element i * stride and has n elements.
  void fold_lanes(std::byte* lanes, int64_t stride, int64_t n) const {
    for (int step = kReduceLanes / 2; step > 0; step /= 2)
      for (int i = 0; i < step; ++i)
        kernel_.combine(lanes + (i + step) * stride * bytes_, n, lanes + i * stride * bytes_);
  }

  void reduce_rows() {
    each_item(pool_, kept_ * chunks_, kReduceChunk, [&](int64_t begin, int64_t end) {
      Tile tile(lowered_);
      alignas(64) std::byte lanes[kReduceLanes * 8];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t kept = item / chunks_, chunk = item % chunks_;
        kernel_.clear(lanes, kReduceLanes);
        const int64_t stop = std::min(reduced_, (chunk + 1) * kReduceChunk);
        for (int64_t at = chunk * kReduceChunk; at < stop; at += kTile) {
          const int64_t count = std::min(kTile, stop - at);
          tile.compute(
              {.dimensions = program_.rank, .begin = kept * reduced_ + at, .count = count});
          kernel_.reduce(tile.reg(reduction_.reg), count, lanes);
        }
        fold_lanes(lanes, 1, 1);
        std::memcpy(result(kept, chunk), lanes, static_cast<size_t>(bytes_));
      }
    });
  }

  void reduce_short_rows() {
    const int64_t rows = kTile / reduced_;  // of a tile
    each_item(pool_, ceil_div(kept_, rows), kTile, [&](int64_t begin, int64_t end) {
      Tile tile(lowered_);
      alignas(64) std::byte lanes[kReduceLanes * 8];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item * rows, count = std::min(rows, kept_ - first);
        tile.compute(
            {.dimensions = program_.rank, .begin = first * reduced_, .count = count * reduced_});
        const auto* x = static_cast<const std::byte*>(tile.reg(reduction_.reg));
        for (int64_t row = 0; row < count; ++row) {
          kernel_.clear(lanes, kReduceLanes);
          kernel_.reduce(x + row * reduced_ * bytes_, reduced_, lanes);
          fold_lanes(lanes, 1, 1);
          std::memcpy(result(first + row, 0), lanes, static_cast<size_t>(bytes_));
        }
      }
    });
  }

  // Tiles of kept elements. Each lane is a row of a tile; the order of sums is that of the others.
  void reduce_outer() {
    const int64_t tiles = ceil_div(kept_, kTile);
    each_item(pool_, tiles * chunks_, std::min(kept_, kTile) * std::min(reduced_, kReduceChunk),
              [&](int64_t begin, int64_t end) {
                Tile tile(lowered_);
                std::vector<std::byte> lanes(static_cast<size_t>(kReduceLanes * kTile * 8));
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t first = item / chunks_ * kTile, chunk = item % chunks_;
                  const int64_t count = std::min(kTile, kept_ - first);
                  kernel_.clear(lanes.data(), kReduceLanes * kTile);
                  const int64_t stop = std::min(reduced_, (chunk + 1) * kReduceChunk);
                  for (int64_t at = chunk * kReduceChunk; at < stop; ++at) {
                    std::array<int64_t, kMaxTensorRank> indices{};
                    int64_t rest = at;
                    for (int d = program_.rank - 1; d >= kept_dimensions_; --d) {
                      const int64_t extent = program_.shape[static_cast<size_t>(d)];
                      indices[static_cast<size_t>(d - kept_dimensions_)] = rest % extent;
                      rest /= extent;
                    }
                    tile.compute({kept_dimensions_, first, count, indices.data()});
                    kernel_.combine(tile.reg(reduction_.reg), count,
                                    lanes.data() + at % kReduceLanes * kTile * bytes_);
                  }
                  fold_lanes(lanes.data(), kTile, count);
                  for (int64_t i = 0; i < count; ++i)
                    std::memcpy(result(first + i, chunk), lanes.data() + i * bytes_,
                                static_cast<size_t>(bytes_));
                }
              });
  }

  // Combines the results of the chunks as a binary tree, and writes them to the output.
  void write() {
    for (int64_t kept = 0; kept < kept_ && chunks_ > 1; ++kept)
      for (int64_t left = chunks_; left > 1; left = ceil_div(left, 2))
        for (int64_t i = 0; i < left; i += 2) {
          if (i + 1 < left) kernel_.combine(result(kept, i + 1), 1, result(kept, i));
          std::memmove(result(kept, i / 2), result(kept, i), static_cast<size_t>(bytes_));
        }
    ElementProgram copy;
    copy.rank = kept_dimensions_;
    copy.shape = program_.shape;
    ElementTransfer from{0, {results_.data(), reduction_.type, {}}};
    int64_t stride = std::max<int64_t>(chunks_, 1);
    for (int i = kept_dimensions_ - 1; i >= 0; --i) {
      from.elements.strides[static_cast<size_t>(i)] = stride;
      stride *= program_.shape[static_cast<size_t>(i)];
    }
    copy.inputs.push_back(from);
    copy.outputs.push_back({0, reduction_.out});
    run_elements(LoweredProgram(copy, target_), pool_);
  }

  const LoweredProgram& lowered_;
  const ElementProgram& program_;
  const ElementReduction& reduction_;
  ReduceKernel kernel_;
  Target target_;
  ThreadPool& pool_;
  int64_t bytes_;
  int kept_dimensions_;
  int64_t kept_, reduced_, chunks_;
  std::vector<std::byte> results_;  ///< [kept][chunk]
};

}  // namespace

void run_program(const ElementProgram& program, Target target, ThreadPool& pool) {
  const LoweredProgram lowered(program, target);
  if (program.reduction) return Reducer(lowered, target, pool).run();
  if (program.size() > 0) run_elements(lowered, pool);
}

}  // namespace veery
