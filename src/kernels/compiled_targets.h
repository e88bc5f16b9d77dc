// compiled_targets.h: the instruction sets that this build has kernels for.
#pragma once
#include <vector>

#include "kernels/kernels.h"

namespace veery {

/// Returns the compiled targets, best first. supported_targets() returns those of them that this
/// machine can run.
std::vector<Target> compiled_targets();

}  // namespace veery
