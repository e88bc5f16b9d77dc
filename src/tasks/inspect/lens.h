// lens.h: the logit lens: predictions from the hidden state of each layer (nostalgebraist,
// "interpreting GPT: the logit lens", 2020).
#pragma once
#include <memory>
#include <vector>

#include "tasks/inspect/inspect.h"

namespace veery {

/// The part of a graph that computes one value from another.
struct GraphPart {
  Graph graph;
  Value root;
};
/// Returns the part of `graph` that computes `to` from `from` [rows, columns], which becomes the
/// input "features".
GraphPart part_between(const Graph& graph, Value from, Value to);

/// Applies final norm and output head of a model to rows of hidden states.
class Lens {
 public:
  /// `last`: the value of the entry that is the input of the final norm.
  Lens(Model& model, const Entry& entry, Value last);

  /// Returns the `top` most probable tokens of each of the `rows` rows of hidden [rows][dim], most
  /// probable first, ties by the lower id.
  std::vector<LensToken> look(const Operand& hidden, int64_t rows, int32_t top);

 private:
  Model& model_;
  GraphPart part_;
  RunBlock block_;
  Workspace workspace_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace veery
