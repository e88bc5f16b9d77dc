#include "engine/inspect/importance.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "engine/runner.h"
#include "graph/ops/experts.h"
#include "graph/ops/linear.h"
#include "model/arch/entry.h"
#include "plan/plan.h"
#include "plan/slots.h"

namespace veery {

/// Some of the inputs, in one plan: the roots of all of them would not fit into memory.
struct ImportanceCollector::Pass {
  explicit Pass(int32_t rows) : block(rows) {}

  std::vector<const Input*> inputs;
  std::vector<Value> roots;  ///< of each input its value, then its gates if it has some
  SlotBlock block;
  uint8_t extended = 0;
  std::unique_ptr<Plan> plan;
};

namespace {

constexpr double kMostBytes = 512e6;  // of the roots of a plan

}  // namespace

ImportanceCollector::ImportanceCollector(Model& model) : model_(model) {
  if (model.backend() != nullptr)
    throw Error(ErrorKind::kUnsupported, "{}: importances are collected on the CPU only",
                model.path());
  entry_ = inspect_entry(model.file(), model.config(), false);
  find_inputs();
}

ImportanceCollector::~ImportanceCollector() = default;

void ImportanceCollector::find_inputs() {
  const Graph& graph = entry_.graph;
  const auto add = [&](Value x, Value gates, Value weight) {
    if (!weight || graph[weight].op != op::kParam) return;
    auto known = std::ranges::find_if(
        inputs_, [&](const Input& input) { return input.value == x && input.gates == gates; });
    if (known == inputs_.end()) known = inputs_.insert(inputs_.end(), {x, gates, {}});
    known->weights.push_back(graph[weight].name);
  };
  for (const Node& node : graph.nodes()) {
    if (node.op == op::kLinear && !node.in[LinearIn::kNorm])
      for (int i = 0; i < node.as<LinearAttr>().weights; ++i)
        add(node.in[LinearIn::kX], kNoValue, node.in[static_cast<size_t>(LinearIn::kWeight + i)]);
    if (node.op != op::kMoe) continue;
    for (const int weight : {MoeIn::kGate, MoeIn::kUp})
      add(node.in[MoeIn::kX], node.in[MoeIn::kGates], node.in[static_cast<size_t>(weight)]);
  }
}

void ImportanceCollector::read(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  check_ids(model_, ids);
  if (std::ssize(ids) > model_.options().context)
    throw Error(ErrorKind::kLimit, "the window has {} tokens, the context holds {}", ids.size(),
                model_.options().context);
  const auto rows = static_cast<int32_t>(ids.size());
  if (rows != rows_) passes_.clear();
  if (passes_.empty()) {
    double bytes = kMostBytes;
    for (const Input& input : inputs_) {
      const double more = 4.0 * rows * static_cast<double>(entry_.graph.shape(input.value).cols());
      if (bytes + more > kMostBytes) passes_.push_back(std::make_unique<Pass>(rows)), bytes = 0;
      bytes += more;
      Pass& pass = *passes_.back();
      pass.inputs.push_back(&input);
      pass.roots.push_back(input.value);
      if (input.gates) pass.roots.push_back(input.gates);
    }
    for (const auto& pass : passes_) {
      pass->extended = static_cast<uint8_t>(rows > model_.config().rope.original_context);
      pass->block.slots.sequences = 1;
      pass->block.slots.extended = &pass->extended;
      pass->block.add_span(0, rows, 0);
      pass->plan =
          std::make_unique<Plan>(entry_.graph, pass->roots,
                                 Binding{&model_.params(), nullptr, &pass->block, &model_.pool()},
                                 PlanOptions{.rows = rows,
                                             .target = model_.target(),
                                             .exact = model_.options().exact,
                                             .fuse = model_.options().fuse});
    }
    rows_ = rows;
  }
  for (const auto& pass : passes_) {
    std::ranges::copy(ids, pass->block.tokens.begin());
    pass->plan->run();
    add_rows(*pass, rows);
  }
}

// Each column is one worker's, so that the sums do not depend on their number.
void ImportanceCollector::add_rows(const Pass& pass, int32_t rows) {
  size_t root = 0;
  for (const Input* input : pass.inputs) {
    const Operand& x = pass.plan->root(root++);
    const Operand* gates = input->gates ? &pass.plan->root(root++) : nullptr;
    const auto cols = static_cast<size_t>(x.cols);
    const auto experts = gates == nullptr ? size_t{1} : static_cast<size_t>(gates->cols);
    ImportanceSums& sums = sums_[input->weights.front()];
    sums.squares.resize(cols * experts);
    sums.counts.resize(experts);
    const auto used = [&](int64_t r, size_t expert) {
      return gates == nullptr || gates->row<float>(r)[expert] != 0;
    };
    for (int64_t r = 0; r < rows; ++r)
      for (size_t e = 0; e < experts; ++e) sums.counts[e] += used(r, e) ? 1 : 0;
    model_.pool().parallel_for(x.cols, 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x.row<float>(r);
        for (size_t e = 0; e < experts; ++e) {
          if (!used(r, e)) continue;
          double* const to = sums.squares.data() + e * cols;
          for (int64_t c = begin; c < end; ++c) to[c] += double{row[c]} * row[c];
        }
      }
    });
    for (size_t i = 1; i < input->weights.size(); ++i) sums_[input->weights[i]] = sums;
  }
}

}  // namespace veery
