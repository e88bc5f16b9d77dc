// search_memory.h: what a search keeps while it runs, and where.
#pragma once
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/cpu/search/search.h"

namespace veery {

static_assert(sizeof(SearchNotes) <= SplitPanels::kNotes);

inline SearchNotes& search_notes(const Dispatch& d) {
  const Operand& w = d.in[LinearIn::kWeight];
  return *reinterpret_cast<SearchNotes*>(w.data + SplitPanels(w.rows, w.cols).notes());
}

/// How one run goes, the same for all workers.
struct alignas(64) SearchRun {
  bool searches;                    ///< false: all panels are multiplied
  bool together;                    ///< the first two parts are read at once
  std::atomic<uint32_t> threshold;  ///< by_order() of an output that there is; 0: none
};

/// What one worker had to read beside the upper parts.
struct alignas(64) SearchCounts {
  int32_t candidates = 0;  ///< panels that could hold the largest, by their upper part alone
  int32_t multiplied = 0;  ///< by the middle part too: read as a whole
};

/// The shared memory of a product with `rows` rows, then SearchRun, SearchCounts[workers] and the
/// bounds; the scratch of a product, then two floats a block.
struct SearchMemory {
  SearchRun* run;
  SearchCounts* counts;  ///< [workers]
  float* bounds;         ///< [panels] no output of a panel is larger
  float* moment;         ///< [blocks] of the row, of this worker: sums of x
  float* magnitude;      ///< [blocks] of |x|, and more for roundings

  SearchMemory(const Dispatch& d, const Product& p, const Worker& worker)
      : run(reinterpret_cast<SearchRun*>(d.work + p.best_bytes(true, worker))),
        counts(reinterpret_cast<SearchCounts*>(run + 1)),
        bounds(reinterpret_cast<float*>(counts + worker.count)),
        moment(reinterpret_cast<float*>(worker.scratch + p.few_scratch_bytes())),
        magnitude(moment + p.cols / 32) {}

  static size_t work_bytes(const Product& p, int workers) {
    return sizeof(SearchRun) + static_cast<size_t>(workers) * sizeof(SearchCounts) +
           static_cast<size_t>(p.weights[0].panels()) * sizeof(float);
  }
  static size_t scratch_bytes(const Product& p) {
    return static_cast<size_t>(p.cols / 32) * 2 * sizeof(float);
  }
};

}  // namespace veery
