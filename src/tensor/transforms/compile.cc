// Functions whose plans are kept.
#include <algorithm>
#include <mutex>
#include <utility>
#include <veery/tensor_transforms.hpp>

#include "tensor/devices.h"
#include "tensor/transforms/plan.h"

namespace veery::tensor {
namespace {

/// The combinations of shapes and types whose plans a function keeps.
constexpr size_t kMostPlans = 32;

/// A call. Inputs: the arguments, then captured tensors.
class Call : public Operation {
 public:
  explicit Call(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::string_view name() const override { return "compiled"; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec>) const override {
    return plan_->run(in);
  }

 private:
  std::shared_ptr<const Plan> plan_;
};

class Compiled {
 public:
  Compiled(Function fn, bool shapeless) : fn_(std::move(fn)), is_shapeless_(shapeless) {}

  std::vector<Tensor> call(std::span<const Tensor> arguments) {
    for (const Tensor& x : arguments) require("compile", x);
    const bool on_cpu = std::all_of(arguments.begin(), arguments.end(),
                                    [](const Tensor& x) { return device_of(x).is_cpu(); });
    if (KeepInputs::active() || !on_cpu) return fn_(arguments);
    const std::shared_ptr<const Plan> plan = find(arguments);
    std::vector<Tensor> inputs(arguments.begin(), arguments.end());
    for (const auto& [tensor, slot] : plan->captured) inputs.push_back(tensor);
    std::vector<Spec> specs;
    for (const size_t slot : plan->outputs) specs.push_back(plan->slots[slot]);
    return make_all(std::make_shared<Call>(plan), std::move(inputs), std::move(specs));
  }

 private:
  std::shared_ptr<const Plan> find(std::span<const Tensor> arguments) {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const std::shared_ptr<const Plan>& plan) {
      return std::equal(arguments.begin(), arguments.end(), plan->arguments.begin(),
                        plan->arguments.end(),
                        [](const Tensor& x, const Spec& expected) { return spec(x) == expected; });
    };
    const auto known = std::find_if(plans_.begin(), plans_.end(), fits);
    if (known != plans_.end()) {
      std::rotate(plans_.begin(), known, known + 1);
      return plans_.front();
    }
    keep(plans_, new_plan(arguments));
    return plans_.front();
  }
  std::shared_ptr<const Plan> new_plan(std::span<const Tensor> arguments) {
    for (const ShapelessPlan& shapeless : shapeless_)
      if (std::shared_ptr<const Plan> plan = shapeless.plan_for(arguments)) return plan;
    std::vector<Spec> specs;
    for (const Tensor& x : arguments) specs.push_back(spec(x));
    std::shared_ptr<const Plan> plan = make_plan(fn_, specs, true);
    if (is_shapeless_)
      if (std::optional<ShapelessPlan> made = ShapelessPlan::make(fn_, plan))
        keep(shapeless_, std::move(*made));
    return plan;
  }
  template <typename T>
  static void keep(std::vector<T>& plans, T plan) {
    plans.insert(plans.begin(), std::move(plan));
    if (plans.size() > kMostPlans) plans.pop_back();
  }

  Function fn_;
  bool is_shapeless_;
  std::mutex mutex_;
  std::vector<ShapelessPlan> shapeless_;
  std::vector<std::shared_ptr<const Plan>> plans_;  ///< the last used one first
};

}  // namespace

Function compile(Function fn, bool shapeless) {
  return [compiled = std::make_shared<Compiled>(std::move(fn), shapeless)](
             std::span<const Tensor> arguments) { return compiled->call(arguments); };
}

}  // namespace veery::tensor
