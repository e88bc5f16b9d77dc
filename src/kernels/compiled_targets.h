// compiled_targets.h: which instruction sets this build has kernels for, whatever machine it runs
// on.
#pragma once
#include <vector>

#include "kernels/kernels.h"

namespace veery {

/// Best first; supported_targets() are those of them that this machine can run.
std::vector<Target> compiled_targets();

}  // namespace veery
