// make_walk.h: the launches of a step of one sequence as one table, which one kernel goes through.
#pragma once
#include <optional>
#include <vector>

#include "kernels/gpu/arguments/walk_places.h"
#include "kernels/gpu/gpu.h"

namespace veery::gpu {

/// The table of launches that have one row each, for `blocks` blocks of threads. `best`: in the
/// device's memory, 0 when a run begins, for keys of the largest. Nothing where there is a launch
/// that a walk cannot carry out, or that wants more shared memory than it has.
std::optional<std::vector<WalkRow>> make_walk(const std::vector<Launch>& launches, int blocks,
                                              uint64_t* best);
/// The kernel that goes through such a table: one for weights in blocks of 256 alone is shorter
/// code.
KernelId walk_kernel(const std::vector<WalkRow>& rows);
/// How a walk is launched.
LaunchSize walk_size(int blocks);

}  // namespace veery::gpu
