// pruned_argmax.h: argmax of an output head that reads only the upper bits of most weights.
#pragma once
#include <atomic>

#include "kernels/kernels.h"

namespace veery {

/// Maximum number of token rows of one pruned dispatch.
inline constexpr int64_t kPrunedRows = 16;

/// Returns the kernel for kLinearArgmax of up to kPrunedRows rows (up to kSmallGroupRows on
/// machines with AMX tiles), or a kernel without phases if the operands do not qualify: the weight
/// must have the format of format_for_argmax(), the precision must be high, and only a positive
/// factor may follow the product. The result is that of linear_kernel(), ties included.
///
/// Algorithm (pruned_argmax-inl.h for one row, pruned_argmax_rows-inl.h for several):
///   1. begin   one worker decides from PruningHistory whether this run prunes.
///   2. scan    every worker computes an upper bound of each output of its panels from the upper
///              bits of the weights, and raises a shared threshold: the largest output known.
///   3. verify  panels whose bound reaches the threshold are multiplied with all bits.
///   4. end     the largest outputs of all workers are merged, and PruningHistory is updated.
Kernel pruned_argmax_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

/// Statistics of earlier runs, stored at the end of the weight. They affect the run time, never
/// the result. If the outputs of a model are close to each other, most panels survive pruning and
/// reading the upper part first is slower than a plain product; pruning then pauses for some runs.
/// Plans that run concurrently share the history.
struct PruningHistory {
  struct Pause {
    std::atomic<int32_t> left;  ///< remaining runs that read all panels completely
    std::atomic<int32_t> last;  ///< length of the latest pause; 0 after a run that paid off
  };
  Pause one, several;                    ///< of runs of one row, and of several rows
  std::atomic<int32_t> reads_two_parts;  ///< 1: most panels were candidates; read two parts at once
};

}  // namespace veery
