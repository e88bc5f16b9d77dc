// evaluate.h: the evaluation of graphs of tensors.
#pragma once
#include <span>
#include <vector>

#include "tensor/element_group.h"
#include "tensor/node.h"

namespace veery::tensor {

/// eval(), without waiting for jobs of async_eval().
void eval_now(std::span<const Tensor> tensors);

/// The nodes that `targets` need, in the order of computation, with element-wise nodes grouped. A
/// node joins the group of its consumers if all of them are in one group, so that its values need
/// not be written to memory; a reduction starts a group with what it reduces.
class Evaluation {
 public:
  explicit Evaluation(std::span<const Tensor> targets);
  /// Computes the targets. Nodes drop their inputs then, which releases what nothing else uses,
  /// unless KeepInputs is active.
  void run();

  /// A step of run(): a group, or an operation that is in none.
  struct Step {
    const ElementGroup* group = nullptr;
    Node* node = nullptr;
  };
  std::vector<Step> steps() const;

 private:
  static constexpr int kNone = -1;
  /// The group of a node's consumers: not known yet, or not the same one.
  static constexpr int kUnknown = -2;
  struct Facts {
    Node* node = nullptr;
    size_t owners = 0;  ///< tensors that refer to it
    size_t uses = 0;    ///< those of them that are inputs of nodes of this evaluation
    bool is_target = false;
    bool is_skipped = false;    ///< a constant, which programs have in a register
    bool only_programs = true;  ///< all consumers are element-wise or skipped
    int consumers = kUnknown;   ///< the group of all of them, or kNone
    int group = kNone;
  };
  struct Group {
    ElementGroup nodes;
    const Shape* shape = nullptr;
    std::vector<const Node*> inputs;  ///< distinct, not members
  };
  struct ClearPlaces {
    const std::vector<Facts>& facts;
    ~ClearPlaces();
  };
  void collect(std::span<const Tensor> targets);
  void form_groups();
  void join(Facts& facts);
  bool reduces_values_of_group(const Facts& facts) const;
  static bool is_constant(const Node& node);
  void finish_groups();
  static bool has_room(const Group& group, const Node& node);
  static void compute(Node& node);
  static void drop_inputs(std::span<Node* const> nodes);
  Facts& facts_of(const Node& node) { return facts_[static_cast<size_t>(node.place)]; }
  const Facts& facts_of(const Node& node) const { return facts_[static_cast<size_t>(node.place)]; }

  std::vector<Facts> facts_;
  std::vector<int> order_;  ///< places, inputs first
  std::vector<Group> groups_;
};

}  // namespace veery::tensor
