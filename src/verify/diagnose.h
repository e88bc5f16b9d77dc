// diagnose.h: which change of a model makes it match its reference?
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verify/hypotheses.h"

namespace veery {

struct Diagnosis {
  std::vector<Hypothesis> changes;  ///< together, in order; empty: nothing helped
  double before = 0, after = 0;     ///< relative differences
  bool explained = false;           ///< `after` is within the tolerance
  size_t tried = 0;
};

/// Tries hypotheses on `model`, whose logits are `before` from the reference, one after the other,
/// and on the best one others; numbers are searched for. `progress` is called with the number of
/// trials.
Diagnosis diagnose(const Model& model, std::span<const ReferenceSet> sets, double tolerance,
                   const std::function<void(size_t)>& progress = {});

}  // namespace veery
