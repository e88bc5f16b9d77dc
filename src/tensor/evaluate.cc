#include "tensor/evaluate.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
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
  collect(targets);
  form_groups();
}

// Nodes in the order of a depth-first search, without recursion.
void Evaluation::collect(std::span<const Tensor> targets) {
  std::vector<std::pair<Node*, size_t>> stack;  // a node, and its next input
  const auto visit = [&](const Tensor& x) {
    Node* node = x.node().get();
    if (!node->is_evaluated() && facts_.try_emplace(node).second) stack.emplace_back(node, 0);
  };
  std::unordered_map<const Node*, long> owners;  // NOLINT(google-runtime-int): use_count()
  for (const Tensor& target : targets) {
    visit(target);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        const Tensor& input = node->inputs[next++];
        owners[input.node().get()] = input.node().use_count();
        Node* consumer = node;
        visit(input);
        if (const auto found = facts_.find(input.node().get()); found != facts_.end())
          found->second.consumers.push_back(consumer);
      } else {
        order_.push_back(node);
        stack.pop_back();
      }
    }
  }
  for (auto& [node, facts] : facts_)
    facts.is_held =
        owners.contains(node) && static_cast<size_t>(owners[node]) > facts.consumers.size();
  for (const Tensor& target : targets)
    if (const auto found = facts_.find(target.node().get()); found != facts_.end())
      found->second.is_target = true;
}

bool Evaluation::has_room(int group, const Node& node) const {
  const ElementGroup& g = groups_[static_cast<size_t>(group)];
  if (g.members.size() >= kMostMembers) return false;
  std::set<const Node*> inputs;
  for (const Node* member : g.members)
    for (const Tensor& input : member->inputs) inputs.insert(input.node().get());
  for (const Tensor& input : node.inputs) inputs.insert(input.node().get());
  return inputs.size() <= kMostInputs + g.members.size();
}

// Returns the group of all consumers of a node; -1 if there is none that it can join.
int Evaluation::group_for(Node& node, const Facts& facts) {
  int group = -1;
  for (const Node* consumer : facts.consumers) {
    const int other = facts_.at(consumer).group;
    if (other < 0 || (group >= 0 && other != group)) return -1;
    group = other;
  }
  if (group < 0) return -1;
  const Node& root = groups_[static_cast<size_t>(group)].root();
  const Shape& space = root.specs.front().shape;
  const Shape& shape = as_reduce(root) != nullptr ? spec(root.inputs.front()).shape : space;
  return node.specs.front().shape == shape && has_room(group, node) ? group : -1;
}

bool Evaluation::is_skippable(const Node& node, const Facts& facts) const {
  if (facts.is_target) return false;
  const bool is_constant = dynamic_cast<const Constant*>(node.operation.get()) != nullptr ||
                           (dynamic_cast<const Broadcast*>(node.operation.get()) != nullptr &&
                            constant_value(node.inputs.front()) != nullptr);
  return is_constant &&
         std::all_of(facts.consumers.begin(), facts.consumers.end(), [&](const Node* consumer) {
           const Facts& other = facts_.at(consumer);
           return other.is_skipped || (other.group >= 0 && as_elementwise(*consumer));
         });
}

// Consumers come first, so that their groups are known.
void Evaluation::form_groups() {
  for (size_t i = order_.size(); i-- > 0;) {
    Node& node = *order_[i];
    Facts& facts = facts_.at(&node);
    if (as_elementwise(node) != nullptr) {
      facts.group = group_for(node, facts);
      if (facts.group < 0) {
        facts.group = static_cast<int>(groups_.size());
        groups_.emplace_back();
      }
      groups_[static_cast<size_t>(facts.group)].members.push_back(&node);
    } else if (as_reduce(node) != nullptr) {
      // A group only if the reduced values are computed for it.
      const Node& x = *node.inputs.front().node();
      if (x.is_evaluated() || as_elementwise(x) == nullptr || facts_.at(&x).consumers.size() != 1)
        continue;
      facts.group = static_cast<int>(groups_.size());
      groups_.push_back({{}, &node, {}});
    } else {
      facts.is_skipped = is_skippable(node, facts);
    }
  }
  for (ElementGroup& group : groups_) {
    std::reverse(group.members.begin(), group.members.end());
    for (Node* member : group.members) {
      const Facts& facts = facts_.at(member);
      const bool is_root = group.reduction == nullptr && member == group.members.back();
      if (is_root || facts.is_target || facts.is_held) group.results.push_back(member);
    }
  }
}

void Evaluation::finish(Node& node) {
  if (KeepInputs::active()) return;
  const std::vector<Tensor> dropped = std::exchange(node.inputs, {});
}

void Evaluation::compute(Node& node) {
  std::vector<Operand> operands;
  for (const Tensor& input : node.inputs) operands.push_back({&spec(input), &data_of(input)});
  node.data = node.operation->evaluate(operands, node.specs);
}

void Evaluation::run() {
  for (Node* node : order_) {
    const Facts& facts = facts_.at(node);
    if (facts.is_skipped) continue;
    if (facts.group < 0) {
      compute(*node);
      finish(*node);
      continue;
    }
    const ElementGroup& group = groups_[static_cast<size_t>(facts.group)];
    if (&group.root() != node) continue;
    evaluate(group);
    // Members that are not results may be released with the inputs of the others.
    std::vector<Node*> done = group.results;
    if (group.reduction != nullptr) done.push_back(group.reduction);
    std::vector<Tensor> dropped;
    for (Node* result : done) {
      if (KeepInputs::active()) break;
      dropped.insert(dropped.end(), result->inputs.begin(), result->inputs.end());
      result->inputs.clear();
    }
  }
}

std::vector<Data> Elementwise::evaluate(std::span<const Operand> in,
                                        std::span<const Spec> out) const {
  return {evaluate_one(op_, in, out.front())};
}

void eval(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) require("eval", x);
  const std::lock_guard lock(Runtime::get().mutex());
  try {
    Evaluation(tensors).run();
  } catch (const veery::Error& error) {
    const bool is_memory = error.kind() == veery::ErrorKind::kLimit;
    throw Error(is_memory ? ErrorKind::kLimit : ErrorKind::kInternal, error.what());
  }
}

}  // namespace veery::tensor
