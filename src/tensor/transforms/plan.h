// plan.h: plans of compiled functions.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/element_group.h"
#include "tensor/node.h"

namespace veery::tensor {

/// The steps of a function for arguments of certain shapes and types. Values are in slots.
struct Plan {
  /// An operation, or a program if there is none.
  struct Step {
    std::shared_ptr<const Operation> operation;
    GroupProgram program;
    std::vector<Spec> specs;  ///< of the outputs of the operation
    std::vector<size_t> inputs, outputs;
    std::vector<size_t> released;  ///< slots that no later step reads
  };
  std::vector<Spec> arguments;  ///< slots 0 to arguments.size() - 1
  std::vector<std::pair<Tensor, size_t>> captured;
  std::vector<Spec> slots;
  std::vector<Step> steps;
  std::vector<size_t> outputs;

  /// `in`: the arguments, then captured tensors.
  std::vector<Data> run(std::span<const Operand> in) const;
};

/// Calls `fn` with placeholders, and plans its outputs. `computes_constants`: values that do not
/// depend on the arguments are computed now; otherwise they are steps of the plan.
std::shared_ptr<const Plan> make_plan(const Function& fn, std::span<const Spec> arguments,
                                      bool computes_constants);

/// A plan whose steps are those of other shapes, too.
class ShapelessPlan {
 public:
  /// Calls `fn` with other sizes, to find those that may change. Returns nothing if there are none.
  static std::optional<ShapelessPlan> make(const Function& fn, std::shared_ptr<const Plan> plan);
  /// The plan for other arguments; null if it is not one for them.
  std::shared_ptr<const Plan> plan_for(std::span<const Tensor> arguments) const;

 private:
  ShapelessPlan(std::shared_ptr<const Plan> plan, std::vector<int64_t> primes)
      : plan_(std::move(plan)), primes_(std::move(primes)) {}

  std::shared_ptr<const Plan> plan_;
  std::vector<int64_t> primes_;  ///< the sizes of the plan that stand for others
};

}  // namespace veery::tensor
