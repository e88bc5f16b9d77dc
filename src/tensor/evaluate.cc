#include "tensor/evaluate.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "tensor/async.h"
#include "tensor/devices.h"
#include "tensor/elementwise.h"
#include "tensor/runtime.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

// Limits of a group. Each input, constant and live value needs one of kElementRegisters.
constexpr size_t kMostMembers = 40;
constexpr size_t kMostInputs = 14;

const Elementwise* as_elementwise(const Node& node) {
  return dynamic_cast<const Elementwise*>(node.operation.get());
}
const Reduce* as_reduce(const Node& node) {
  return dynamic_cast<const Reduce*>(node.operation.get());
}

}  // namespace

Evaluation::Evaluation(std::span<const Tensor> targets) {
  const ClearPlaces clear{facts_};
  collect(targets);
  form_groups();
  finish_groups();
}

// Nodes are there at least until the evaluation computes them. They know their places only while
// groups are formed.
Evaluation::ClearPlaces::~ClearPlaces() {
  for (const Facts& each : facts) each.node->place = -1;
}

// Nodes in the order of a depth-first search, without recursion.
void Evaluation::collect(std::span<const Tensor> targets) {
  std::vector<std::pair<Node*, size_t>> stack;  // a node, and its next input
  const auto visit = [&](const Tensor& x) {
    Node* node = x.node().get();
    if (node->is_evaluated()) return false;
    if (node->place < 0) {
      node->place = static_cast<int>(facts_.size());
      facts_.push_back({.node = node, .owners = static_cast<size_t>(x.node().use_count())});
      stack.emplace_back(node, 0);
    }
    return true;
  };
  for (const Tensor& target : targets) {
    if (visit(target)) facts_of(*target.node()).is_target = true;
    while (!stack.empty()) {
      const auto [node, next] = stack.back();
      if (next < node->inputs.size()) {
        ++stack.back().second;
        const Tensor& input = node->inputs[next];
        if (visit(input)) ++facts_of(*input.node()).uses;
      } else {
        order_.push_back(node->place);
        stack.pop_back();
      }
    }
  }
}

bool Evaluation::has_room(const Group& group, const Node& node) {
  if (group.nodes.members.size() >= kMostMembers) return false;
  size_t inputs = group.inputs.size();
  for (const Tensor& input : node.inputs)
    if (std::find(group.inputs.begin(), group.inputs.end(), input.node().get()) ==
        group.inputs.end())
      ++inputs;
  return inputs <= kMostInputs + 1;  // one more: the node stops being an input
}

// Adds an element-wise node to the group of its consumers, or to one of its own.
void Evaluation::join(Facts& facts) {
  Node& node = *facts.node;
  const auto fits = [&](int at) {
    const Group& group = groups_[static_cast<size_t>(at)];
    return *group.shape == node.specs.front().shape && has_room(group, node);
  };
  facts.group = facts.consumers >= 0 && fits(facts.consumers) ? facts.consumers : kNone;
  if (facts.group == kNone) {
    facts.group = static_cast<int>(groups_.size());
    groups_.push_back({.shape = &node.specs.front().shape});
  }
  Group& group = groups_[static_cast<size_t>(facts.group)];
  group.nodes.members.push_back(&node);
  std::erase(group.inputs, &node);
  for (const Tensor& input : node.inputs)
    if (std::find(group.inputs.begin(), group.inputs.end(), input.node().get()) ==
        group.inputs.end())
      group.inputs.push_back(input.node().get());
}

// Whether a reduction is the only consumer of values that a group can compute for it.
bool Evaluation::reduces_values_of_group(const Facts& facts) const {
  if (as_reduce(*facts.node) == nullptr) return false;
  const Node& x = *facts.node->inputs.front().node();
  return !x.is_evaluated() && as_elementwise(x) != nullptr && facts_of(x).uses == 1;
}

bool Evaluation::is_constant(const Node& node) {
  const Operation* made_by = node.operation.get();
  return dynamic_cast<const Constant*>(made_by) != nullptr ||
         (dynamic_cast<const View*>(made_by) != nullptr &&
          constant_value(node.inputs.front()) != nullptr);
}

// Consumers come first, so that their groups are known.
void Evaluation::form_groups() {
  for (size_t i = order_.size(); i-- > 0;) {
    Facts& facts = facts_[static_cast<size_t>(order_[i])];
    const bool is_elementwise = as_elementwise(*facts.node) != nullptr;
    if (is_elementwise) {
      join(facts);
    } else if (reduces_values_of_group(facts)) {
      facts.group = static_cast<int>(groups_.size());
      groups_.push_back(
          {.nodes = {.reduction = facts.node}, .shape = &spec(facts.node->inputs.front()).shape});
    } else {
      facts.is_skipped = !facts.is_target && facts.only_programs && is_constant(*facts.node);
    }
    for (const Tensor& input : facts.node->inputs) {
      if (input.node()->place < 0) continue;
      Facts& of = facts_of(*input.node());
      of.consumers = of.consumers == kUnknown || of.consumers == facts.group ? facts.group : kNone;
      of.only_programs = of.only_programs && (is_elementwise || facts.is_skipped);
    }
  }
}

// Results are the values that something outside of the group needs, or may need later.
void Evaluation::finish_groups() {
  for (Group& group : groups_) {
    std::vector<Node*>& members = group.nodes.members;
    std::reverse(members.begin(), members.end());
    for (Node* member : members) {
      const Facts& facts = facts_of(*member);
      const bool is_root = group.nodes.reduction == nullptr && member == members.back();
      if (is_root || facts.is_target || facts.owners > facts.uses)
        group.nodes.results.push_back(member);
    }
  }
}

void Evaluation::compute(Node& node) {
  const DeviceState& device = current_device();
  if (!device.is_cpu() && !node.operation->runs_on_devices())
    fail(ErrorKind::kUnsupported, "{}: there is no kernel for {}; to_device() moves operands",
         node.operation->name(), device.name);
  std::vector<Operand> operands;
  for (const Tensor& input : node.inputs) operands.push_back({&spec(input), &data_of(input)});
  node.data = node.operation->evaluate(operands, node.specs);
}

std::vector<Evaluation::Step> Evaluation::steps() const {
  std::vector<Step> steps;
  for (const int place : order_) {
    const Facts& facts = facts_[static_cast<size_t>(place)];
    if (facts.is_skipped) continue;
    const ElementGroup* group =
        facts.group == kNone ? nullptr : &groups_[static_cast<size_t>(facts.group)].nodes;
    if (group == nullptr || &group->root() == facts.node) steps.push_back({group, facts.node});
  }
  return steps;
}

void Evaluation::run() {
  for (const auto& [group, node] : steps()) {
    const OnDevice device(device_of(Tensor(node->shared_from_this(), 0)));
    std::vector<Node*> done;
    if (group == nullptr) {
      compute(*node);
      done.push_back(node);
    } else {
      evaluate(*group);
      done = group->results;
      if (group->reduction != nullptr) done.push_back(group->reduction);
    }
    for (Node* each : done) each->ready.store(true, std::memory_order_release);
    if (KeepInputs::active()) {
      for (Node* each : done) KeepInputs::remember(each->shared_from_this());
    } else {
      drop_inputs(done);
    }
  }
}

// Nodes that nothing else refers to are released with the inputs, and are no longer named here.
// Views of constants keep theirs, as programs of later groups may read the number by them.
void Evaluation::drop_inputs(std::span<Node* const> nodes) {
  std::vector<Tensor> dropped;
  for (Node* node : nodes) {
    if (is_constant(*node)) continue;
    std::move(node->inputs.begin(), node->inputs.end(), std::back_inserter(dropped));
    node->inputs.clear();
  }
}

std::vector<Data> Elementwise::evaluate(std::span<const Operand> in,
                                        std::span<const Spec> out) const {
  return {evaluate_one(op_, in, out.front())};
}

void eval(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) require("eval", x);
  wait_for_jobs();
  eval_now(tensors);
}

void eval_now(std::span<const Tensor> tensors) {
  const std::lock_guard lock(Runtime::get().mutex());
  try {
    Evaluation(tensors).run();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kLimit, "eval: not enough memory");
  } catch (const veery::Error& error) {
    throw_public(error);
  }
}

}  // namespace veery::tensor
