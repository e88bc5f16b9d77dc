// ops.h: the list of all ops.
#pragma once
#include <vector>

#include "graph/ops/attention.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/experts.h"
#include "graph/ops/leaf.h"
#include "graph/ops/linear.h"
#include "graph/ops/loss.h"
#include "graph/ops/norm.h"
#include "graph/ops/position.h"
#include "graph/ops/recurrence.h"
#include "graph/ops/rows.h"

namespace veery {

/// Returns all ops by family, each in the order of its header.
std::vector<Op> all_ops();

}  // namespace veery
