// search.h: the largest product of a row with a weight, of most of which only upper bits are read.
#pragma once
#include <atomic>

#include "kernels/kernels.h"

namespace veery {

/// Rows of which each has its largest product searched in one dispatch, at most.
inline constexpr int64_t kSearchedRows = 16;

/// The kernel for kLinearArgmax of up to kSearchedRows rows where the weight is in the format that
/// format_for_argmax() gives, precision is high and nothing but a positive factor follows the
/// product; no phases if there is none for these operands. The result is that of linear_kernel().
Kernel search_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

/// What the searches of a weight note, at its end, for those that follow: how long they take
/// depends on it, never what they find. Where outputs are much alike, most panels are candidates;
/// then reading the upper part first is a loss, and is left for some runs. Plans that run at the
/// same time share it.
struct SearchNotes {
  struct Pause {
    std::atomic<int32_t> left;  ///< runs that read all panels as a whole
    std::atomic<int32_t> next;  ///< length of the next pause, less one
  };
  Pause one, several;             ///< of runs of one row, and of more
  std::atomic<int32_t> together;  ///< 1: most panels were candidates, so two parts are read at once
};

}  // namespace veery
