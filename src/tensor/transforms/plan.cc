#include "tensor/transforms/plan.h"

#include <map>

#include "tensor/devices.h"
#include "tensor/evaluate.h"
#include "tensor/transforms/pass_on.h"
#include "tensor/transforms/trace.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

/// Makes a plan of a traced function.
class Planner {
 public:
  explicit Planner(std::span<const Tensor> leaves) : plan_(std::make_shared<Plan>()) {
    for (const Tensor& leaf : leaves) {
      plan_->arguments.push_back(spec(leaf));
      new_slot(leaf);
    }
  }

  std::shared_ptr<const Plan> plan(std::span<const Tensor> outputs) {
    const Evaluation evaluation(outputs);
    for (const auto& [group, node] : evaluation.steps()) {
      if (group != nullptr)
        add(*group);
      else if (!slots_.contains({node, 0}))  // arguments have slots
        add(*node);
    }
    for (const Tensor& y : outputs) plan_->outputs.push_back(slot(y));
    release();
    return plan_;
  }

 private:
  size_t new_slot(const Tensor& x) {
    plan_->slots.push_back(spec(x));
    return slots_[{x.node().get(), x.output()}] = plan_->slots.size() - 1;
  }
  // Values that no step computes are evaluated: the function captured them.
  size_t slot(const Tensor& x) {
    const auto known = slots_.find({x.node().get(), x.output()});
    if (known != slots_.end()) return known->second;
    plan_->captured.emplace_back(x, new_slot(x));
    return plan_->captured.back().second;
  }
  void add(Node& node) {
    Plan::Step step{.operation = node.operation, .specs = node.specs};
    for (const Tensor& input : node.inputs) step.inputs.push_back(slot(input));
    for (const Tensor& y : outputs_of({node.shared_from_this(), 0}))
      step.outputs.push_back(new_slot(y));
    plan_->steps.push_back(std::move(step));
  }
  bool add_program(const ElementGroup& group) {
    std::optional<GroupProgram> made = write_program(group);
    if (!made) return false;
    Plan::Step step;
    for (const Tensor& input : std::exchange(made->inputs, {})) step.inputs.push_back(slot(input));
    for (Node* node : group.results)
      step.outputs.push_back(new_slot({node->shared_from_this(), 0}));
    if (group.reduction != nullptr)
      step.outputs.push_back(new_slot({group.reduction->shared_from_this(), 0}));
    step.program = std::move(*made);
    plan_->steps.push_back(std::move(step));
    return true;
  }
  // As evaluate() does.
  void add(const ElementGroup& group) {
    if (add_program(group)) return;
    for (Node* member : group.members) add_program({{member}, nullptr, {member}});
    if (group.reduction != nullptr) add(*group.reduction);
  }
  // Slots are released by the last step that reads or writes them.
  void release() {
    std::vector<bool> is_needed(plan_->slots.size());
    for (const size_t slot : plan_->outputs) is_needed[slot] = true;
    for (size_t i = plan_->steps.size(); i-- > 0;) {
      Plan::Step& step = plan_->steps[i];
      for (const auto* slots : {&step.inputs, &step.outputs})
        for (const size_t slot : *slots) {
          if (!is_needed[slot]) step.released.push_back(slot);
          is_needed[slot] = true;
        }
    }
  }

  std::shared_ptr<Plan> plan_;
  std::map<std::pair<const Node*, int>, size_t> slots_;
};

// Values that do not depend on the arguments, but numbers, which programs hold in registers. A
// broadcast costs nothing and its shape may be that of an argument, so that it stays in the plan.
std::vector<Tensor> values_of_no_argument(std::span<const Tensor> leaves,
                                          std::span<const Tensor> outputs) {
  const Trace trace(leaves, outputs, Trace::Of::kValues);
  std::vector<Tensor> found;
  for (const Tensor& x : trace.order())
    for (const Tensor& input : x.node()->inputs) {
      if (trace.depends(input) || constant_value(input) != nullptr) continue;
      Tensor source = input;
      while (dynamic_cast<const Broadcast*>(source.node()->operation.get()) != nullptr &&
             !source.is_evaluated())
        source = Tensor(source.node()->inputs.front());
      found.push_back(source);
    }
  for (const Tensor& y : outputs)
    if (!trace.depends(y)) found.push_back(y);
  return found;
}

}  // namespace

std::vector<Data> Plan::run(std::span<const Operand> in) const {
  std::vector<Data> made(slots.size());
  std::vector<Operand> values(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) values[i] = {&slots[i], &made[i]};
  for (size_t i = 0; i < in.size(); ++i)
    values[i < arguments.size() ? i : captured[i - arguments.size()].second].data = in[i].data;
  std::vector<Operand> operands;
  for (const Step& step : steps) {
    operands.clear();
    for (const size_t slot : step.inputs) operands.push_back(values[slot]);
    std::vector<Data> results = step.operation ? step.operation->evaluate(operands, step.specs)
                                               : *tensor::run(step.program, operands);
    for (size_t i = 0; i < results.size(); ++i) made[step.outputs[i]] = std::move(results[i]);
    for (const size_t slot : step.released) made[slot] = {};
  }
  std::vector<Data> results;
  for (const size_t slot : outputs) results.push_back(*values[slot].data);
  return results;
}

std::shared_ptr<const Plan> make_plan(const Function& fn, std::span<const Spec> arguments,
                                      bool computes_constants) {
  std::vector<Tensor> leaves, outputs;
  {
    const KeepInputs tracing;
    for (const Spec& each : arguments) {
      leaves.push_back(make(Placeholder("compile"), {}, each));
      leaves.back().node()->device = &cpu_device();
    }
    outputs = fn(leaves);
  }
  for (const Tensor& y : outputs) require("compile", y);
  if (computes_constants) eval(values_of_no_argument(leaves, outputs));
  return Planner(leaves).plan(outputs);
}

}  // namespace veery::tensor
