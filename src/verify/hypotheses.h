// hypotheses.h: what may be wrong with a model: each a change that would put it right.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "verify/reference.h"

namespace veery {

struct Hypothesis {
  std::string defect;  ///< "wrong RoPE pairing"
  std::string when;    ///< what holds for the reference: "pairs of RoPE are halves (i, i + d/2)"
  Model::Change change;
  IdEdit edit = IdEdit::kNone;
  std::string number = {};  ///< Knob::what, where it is the value of one
  double value = 0;         ///< this one
};

/// All that make sense for `model`, which is `far` from the reference `sets`, the more usual
/// defects first.
std::vector<Hypothesis> hypotheses(const Model& model, std::span<const ReferenceSet> sets,
                                   const Difference& far);

/// A number of the configuration that can be searched for.
struct Knob {
  std::string defect;
  std::string what;  ///< "the scale of attention scores"
  double low, high;  ///< both above 0
  double now;        ///< 0: absent
  void (*set)(TransformerConfig&, double);
};
std::vector<Knob> knobs(const Model& model);

/// "0.2773 (1/sqrt(13))"
std::string number_text(double value);

}  // namespace veery
