// lens.h: what a hidden state would say if no layer came behind it (nostalgebraist, "interpreting
// GPT: the logit lens", 2020).
#pragma once
#include <memory>
#include <vector>

#include "tasks/inspect/inspect.h"

namespace veery {

/// What of `graph` makes `to` out of `from` [rows, columns], which is the input "features" there.
struct GraphPart {
  Graph graph;
  Value root;
};
GraphPart part_between(const Graph& graph, Value from, Value to);

/// Final norm and head of a model, on rows of hidden states.
class Lens {
 public:
  /// `last`: the value of the entry that the final norm is given.
  Lens(Model& model, const Entry& entry, Value last);

  /// hidden [rows][dim] -> the `top` most probable tokens of each row, the most probable first, of
  /// equal ones the one with the lowest id. `rows` [positions, dim] of a plan.
  std::vector<LensToken> look(const Operand& hidden, int64_t rows, int32_t top);

 private:
  Model& model_;
  GraphPart part_;
  RunBlock block_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace veery
