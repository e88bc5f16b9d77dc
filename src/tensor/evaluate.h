// evaluate.h: the evaluation of graphs of tensors.
#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "tensor/element_group.h"
#include "tensor/node.h"

namespace veery::tensor {

/// The nodes that `targets` need, in the order of computation, with element-wise nodes grouped. A
/// node joins the group of its consumers if all of them are in one group, so that its values need
/// not be written to memory; a reduction starts a group with what it reduces.
class Evaluation {
 public:
  explicit Evaluation(std::span<const Tensor> targets);
  /// Computes the targets. Nodes drop their inputs then, which releases what nothing else uses,
  /// unless KeepInputs is active.
  void run();

 private:
  struct Facts {
    std::vector<Node*> consumers;
    bool is_target = false;
    bool is_held = false;     ///< by something beside its consumers
    bool is_skipped = false;  ///< a constant, which programs have in a register
    int group = -1;
  };
  void collect(std::span<const Tensor> targets);
  void form_groups();
  int group_for(Node& node, const Facts& facts);
  bool has_room(int group, const Node& node) const;
  bool is_skippable(const Node& node, const Facts& facts) const;
  void compute(Node& node);
  void finish(Node& node);

  std::vector<Node*> order_;
  std::unordered_map<const Node*, Facts> facts_;
  std::vector<ElementGroup> groups_;
};

}  // namespace veery::tensor
