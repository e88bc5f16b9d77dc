// diagnose.h: finds the changes that make a model match its reference.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verify/hypotheses.h"

namespace veery {

struct Diagnosis {
  std::vector<Hypothesis> changes;  ///< applied together, in this order; empty: none helped
  double before = 0, after = 0;     ///< relative differences
  bool explained = false;           ///< `after` is within the tolerance
  size_t tried = 0;
};

/// Tries hypotheses on `model`, one at a time, and then further ones combined with the best. Also
/// searches for values of numbers. `progress` is called with the number of trials so far.
Diagnosis diagnose(const Model& model, std::span<const ReferenceSet> sets, double tolerance,
                   const std::function<void(size_t)>& progress = {});

}  // namespace veery
