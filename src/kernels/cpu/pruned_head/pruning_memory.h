// pruning_memory.h: work and scratch memory of a pruned argmax.
#pragma once
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/cpu/pruned_head/pruned_argmax.h"

namespace veery {

static_assert(sizeof(PruningHistory) <= SplitPanels::kHistoryBytes);

inline PruningHistory& pruning_history(const Dispatch& d) {
  const Operand& w = d.in[FusedLinearIn::kWeight];
  return *reinterpret_cast<PruningHistory*>(w.data + SplitPanels(w.rows, w.cols).history());
}

/// The state of one run, shared by all workers.
struct alignas(64) PruningRun {
  bool prunes;           ///< false: all panels are multiplied
  bool reads_two_parts;  ///< upper and middle part are read in one pass
  /// For each row order_key() of an output that has been computed; 0: none yet.
  std::atomic<uint32_t> threshold[kPrunedRows];
};

/// Panels that one worker had to read beyond their upper part.
struct alignas(64) PruningCounts {
  int32_t candidates = 0;  ///< not pruned by the upper part alone
  int32_t multiplied = 0;  ///< not pruned by the middle part either; counted once per row
};

/// Memory layout. Work (shared): that of linear_argmax, PruningRun, PruningCounts[workers],
/// bounds. Scratch (per worker): that of a linear with few rows, the main (not residual)
/// quantisation of all rows, two floats for each block and row.
struct PruningMemory {
  PruningRun* run;
  PruningCounts* counts;  ///< [workers]
  float* bounds;          ///< [row][panels] upper bound of the outputs of a panel
  std::byte* main;        ///< this member and those below belong to one worker
  float* moment;          ///< [blocks][row] sum of x; for several rows without the residual
  float* magnitude;       ///< [blocks][row] sum of |x|, enlarged to cover rounding

  PruningMemory(const Dispatch& d, const Product& p, const Worker& worker)
      : run(reinterpret_cast<PruningRun*>(d.work + p.best_bytes(true, worker) +
                                          p.activation_bytes())),
        counts(reinterpret_cast<PruningCounts*>(run + 1)),
        bounds(reinterpret_cast<float*>(counts + worker.count)),
        main(worker.scratch + p.few_scratch_bytes()),
        moment(reinterpret_cast<float*>(main + p.activation_bytes())),
        magnitude(moment + p.outer_rows() * (p.cols / 32)) {}

  static size_t work_bytes(const Product& p, int workers) {
    return static_cast<size_t>(p.activation_bytes()) + sizeof(PruningRun) +
           static_cast<size_t>(workers) * sizeof(PruningCounts) +
           static_cast<size_t>(p.outer_rows() * p.weights[0].panels()) * sizeof(float);
  }
  static size_t scratch_bytes(const Product& p) {
    return static_cast<size_t>(p.activation_bytes()) +
           static_cast<size_t>(p.outer_rows() * (p.cols / 32)) * 2 * sizeof(float);
  }
};

}  // namespace veery
