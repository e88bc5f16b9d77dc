// hypotheses.h: possible defects of a model, each with the change that would correct it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "verify/reference.h"

namespace veery {

struct Hypothesis {
  std::string defect;  ///< "wrong RoPE pairing"
  std::string when;    ///< the property under which the reference is matched
  Model::Change change;
  IdEdit edit = IdEdit::kNone;
  std::string number = {};  ///< Knob::what, if the change sets a number
  double value = 0;         ///< value of that number
};

/// Returns all hypotheses that apply to `model`, whose difference from the reference `sets` is
/// `far`; common defects come first.
std::vector<Hypothesis> hypotheses(const Model& model, std::span<const ReferenceSet> sets,
                                   const Difference& far);

/// A number of the configuration whose value can be searched for.
struct Knob {
  std::string defect;
  std::string what;  ///< "the scale of attention scores"
  double low, high;  ///< search range, above 0
  double now;        ///< current value; 0: absent
  void (*set)(TransformerConfig&, double);
};
std::vector<Knob> knobs(const Model& model);

/// Formats a number, with its form as a root if it has one: "0.2773 (1/sqrt(13))".
std::string number_text(double value);

}  // namespace veery
