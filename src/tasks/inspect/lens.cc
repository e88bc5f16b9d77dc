#include "tasks/inspect/lens.h"

#include <algorithm>
#include <cmath>

#include "engine/session_sizes.h"
#include "sample/sampler.h"

namespace veery {
namespace {

constexpr int64_t kRows = 64;  // rows of a run, which bound the memory of logits

void most_probable(std::span<const float> logits, std::span<LensToken> top) {
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<int32_t> best;
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    if (best.size() == top.size()) {
      if (!before(id, best.back())) continue;
      best.pop_back();
    }
    best.insert(std::ranges::upper_bound(best, id, before), id);
  }
  const double all = log_sum_exp(logits);
  for (size_t i = 0; i < top.size(); ++i)
    top[i] = {best[i],
              static_cast<float>(std::exp(double{logits[static_cast<size_t>(best[i])]} - all))};
}

}  // namespace

GraphPart part_between(const Graph& graph, Value from, Value to) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  needed[static_cast<size_t>(to.node)] = true;
  for (NodeId id = to.node; id >= 0; --id)
    if (needed[static_cast<size_t>(id)] && id != from.node)
      for (const Value in : graph[id].in)
        if (in) needed[static_cast<size_t>(in.node)] = true;
  GraphPart part;
  std::vector<NodeId> copies(needed.size(), kNoNode);
  for (NodeId id = 0; id <= to.node; ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    const Node& node = graph[id];
    NodeId& copy = copies[static_cast<size_t>(id)];
    if (id == from.node) {
      copy = part.graph.leaf(op::kInput, "features", graph.shape(from), InputAttr{});
    } else if (node.op->group == OpGroup::kLeaf) {
      copy = part.graph.copy_leaf(node);
    } else {
      Inputs in = node.in;
      for (Value& value : in)
        if (value) value.node = copies[static_cast<size_t>(value.node)];
      copy = part.graph.add(node.op, in, node.attr, node.name);
    }
  }
  part.root = {copies[static_cast<size_t>(to.node)], to.output};
  return part;
}

Lens::Lens(Model& model, const Entry& entry, Value last)
    : model_(model),
      part_(part_between(entry.graph, last, entry.root("logits"))),
      block_(part_.graph, kRows),
      workspace_(model.executor().own_arena(model.backend().device())) {
  const PlanOptions options{
      .rows = kRows, .outputs = 1, .exact = model.options().exact, .fuse = model.options().fuse};
  plan_ = std::make_unique<Plan>(part_.graph, std::vector<Value>{part_.root},
                                 one_place(model, workspace_, block_), options);
}

std::vector<LensToken> Lens::look(const Operand& hidden, int64_t rows, int32_t top) {
  const int64_t dim = model_.config().dim;
  std::vector<LensToken> all(static_cast<size_t>(rows * top));
  const std::span<float> features = block_.input<float>("features");
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(hidden.row<float>(first + r), dim, features.begin() + r * dim);
    block_.clear();
    block_.add_span(0, static_cast<int32_t>(count), static_cast<int32_t>(first));
    plan_->run();
    const Operand& logits = plan_->root(0);
    model_.pool().parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        most_probable({logits.row<float>(r), static_cast<size_t>(logits.cols)},
                      std::span(all).subspan(static_cast<size_t>((first + r) * top),
                                             static_cast<size_t>(top)));
    });
  }
  return all;
}

}  // namespace veery
