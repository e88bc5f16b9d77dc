#include "graph/ops/ops.h"

#include <span>

#include "graph/ops/recurrence_back.h"

namespace veery {

std::vector<Op> all_ops() {
  std::vector<Op> all;
  const auto append = [&](std::span<const Op> family) {
    all.insert(all.end(), family.begin(), family.end());
  };
  append(op::kLeaves);
  append(op::kElementwise);
  append(op::kNorms);
  append(op::kProducts);
  append(op::kPositions);
  append(op::kAttention);
  append(op::kRecurrences);
  append(op::kRecurrencesBack);
  append(op::kRowOps);
  append(op::kMixtures);
  append(op::kLosses);
  return all;
}

}  // namespace veery
