// search_memory.h: what a search keeps while it runs, and where.
#pragma once
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/cpu/pruned_head/search.h"

namespace veery {

static_assert(sizeof(SearchNotes) <= SplitPanels::kNotes);

inline SearchNotes& search_notes(const Dispatch& d) {
  const Operand& w = d.in[LinearIn::kWeight];
  return *reinterpret_cast<SearchNotes*>(w.data + SplitPanels(w.rows, w.cols).notes());
}

/// How one run goes, the same for all workers.
struct alignas(64) SearchRun {
  bool searches;  ///< false: all panels are multiplied
  bool together;  ///< the first two parts are read at once
  /// Of each row by_order() of an output that there is; 0: none.
  std::atomic<uint32_t> threshold[kSearchedRows];
};

/// What one worker had to read beside the upper parts.
struct alignas(64) SearchCounts {
  int32_t candidates = 0;  ///< panels that could hold the largest, by their upper part alone
  int32_t multiplied = 0;  ///< by the middle part too: read as a whole, for each row
};

/// The shared memory of a product with `rows` rows, then SearchRun, SearchCounts[workers] and the
/// bounds; the scratch of a product, then the first terms of all rows as a product of one term has
/// them, then two floats for each block and row.
struct SearchMemory {
  SearchRun* run;
  SearchCounts* counts;  ///< [workers]
  float* bounds;         ///< [row][panels] no output of a panel is larger
  std::byte* firsts;     ///< of this worker, as all below
  float* moment;         ///< [blocks][row] sums of x, the first term of it where rows are several
  float* magnitude;      ///< [blocks][row] of |x|, and more for roundings

  SearchMemory(const Dispatch& d, const Product& p, const Worker& worker)
      : run(reinterpret_cast<SearchRun*>(d.work + p.best_bytes(true, worker) +
                                         p.activation_bytes())),
        counts(reinterpret_cast<SearchCounts*>(run + 1)),
        bounds(reinterpret_cast<float*>(counts + worker.count)),
        firsts(worker.scratch + p.few_scratch_bytes()),
        moment(reinterpret_cast<float*>(firsts + p.activation_bytes())),
        magnitude(moment + p.outer_rows() * (p.cols / 32)) {}

  static size_t work_bytes(const Product& p, int workers) {
    return static_cast<size_t>(p.activation_bytes()) + sizeof(SearchRun) +
           static_cast<size_t>(workers) * sizeof(SearchCounts) +
           static_cast<size_t>(p.outer_rows() * p.weights[0].panels()) * sizeof(float);
  }
  static size_t scratch_bytes(const Product& p) {
    return static_cast<size_t>(p.activation_bytes()) +
           static_cast<size_t>(p.outer_rows() * (p.cols / 32)) * 2 * sizeof(float);
  }
};

}  // namespace veery
