#include "tasks/inspect/importance.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/error.h"
#include "engine/session.h"
#include "file/folder/row_sources.h"
#include "graph/ops/linear.h"
#include "kernels/common/formulas.h"
#include "model/arch/entry.h"
#include "plan/plan.h"
#include "plan/run_block.h"

namespace veery {

/// A plan for some of the inputs: the roots of all of them would not fit into memory.
struct ImportanceCollector::Pass {
  Pass(const Model& model, const Graph& graph, int32_t rows)
      : block(graph, rows), workspace(model.executor().own_arena(model.backend().device())) {}

  std::vector<const Input*> inputs;
  std::vector<Value> roots;  ///< of each input its value, then its gates if it has some
  RunBlock block;
  Workspace workspace;
  std::unique_ptr<Plan> plan;
};

namespace {

constexpr double kMaxBytes = 512e6;  // limit of the roots of a plan

}  // namespace

ImportanceCollector::ImportanceCollector(Model& model) : model_(model) {
  if (!model.runs_on_host())
    throw Error(ErrorKind::kUnsupported, "{}: importance matrices are computed on the CPU only",
                model.path());
  entry_ = inspect_entry(model.file(), model.config(), false);
  find_inputs();
}

ImportanceCollector::~ImportanceCollector() = default;

ImportanceCollector::Input& ImportanceCollector::input_of(const Input& like) {
  const auto known = std::ranges::find_if(inputs_, [&](const Input& input) {
    return input.value == like.value && input.gates == like.gates && input.heads == like.heads &&
           input.used == like.used;
  });
  return known != inputs_.end() ? *known : inputs_.emplace_back(like);
}

void ImportanceCollector::find_inputs() {
  const Graph& graph = entry_.graph;
  const auto add = [&](const Input& like, Value weight) {
    if (weight && graph[weight].op == op::kParam)
      input_of(like).weights.push_back(graph[weight].name);
  };
  for (const Node& node : graph.nodes()) {
    if (node.op == op::kLinear) add({node.in[LinearIn::kX], kNoValue}, node.in[LinearIn::kWeight]);
    if (node.op == op::kHeadLinear) {
      const Value weight = node.in[HeadLinearIn::kWeight];
      add({.value = node.in[HeadLinearIn::kX],
           .gates = kNoValue,
           .heads = node.as<HeadsAttr>().heads,
           .used = graph.shape(weight).cols()},
          weight);
    }
    if (node.op != op::kMoe) continue;
    for (const int weight : {MoeIn::kGate, MoeIn::kUp})
      add({node.in[MoeIn::kX], node.in[MoeIn::kGates]}, node.in[static_cast<size_t>(weight)]);
    find_experts(node);
  }
}

void ImportanceCollector::find_experts(const Node& node) {
  const Graph& graph = entry_.graph;
  bool whole = true;
  const auto name = [&](int input) {
    const Value value = node.in[static_cast<size_t>(input)];
    if (!value) return std::string();
    whole = whole && graph[value].op == op::kParam && model_.file().find(graph[value].name);
    return graph[value].name;
  };
  const Experts experts{name(MoeIn::kGate),     name(MoeIn::kUp),     name(MoeIn::kDown),
                        name(MoeIn::kGateBias), name(MoeIn::kUpBias), node.as<MoeAttr>()};
  if (whole) input_of({node.in[MoeIn::kX], node.in[MoeIn::kGates]}).experts.push_back(experts);
}

void ImportanceCollector::read(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  check_ids(model_, ids);
  if (std::ssize(ids) > model_.options().context)
    throw Error(ErrorKind::kLimit, "found a window of {} tokens, expected at most {}", ids.size(),
                model_.options().context);
  const auto rows = static_cast<int32_t>(ids.size());
  if (rows != rows_) passes_.clear();
  if (passes_.empty()) {
    double bytes = kMaxBytes;
    for (const Input& input : inputs_) {
      const double more = 4.0 * rows * static_cast<double>(entry_.graph.shape(input.value).cols());
      if (bytes + more > kMaxBytes) {
        passes_.push_back(std::make_unique<Pass>(model_, entry_.graph, rows));
        bytes = 0;
      }
      bytes += more;
      Pass& pass = *passes_.back();
      pass.inputs.push_back(&input);
      pass.roots.push_back(input.value);
      if (input.gates) pass.roots.push_back(input.gates);
    }
    for (const auto& pass : passes_) {
      std::ranges::fill(pass->block.find<int32_t>("is_extended"),
                        rows > model_.config().positions.rope.original_context ? 1 : 0);
      pass->block.shape.sequences = 1;
      pass->block.add_span(0, rows, 0);
      pass->plan = std::make_unique<Plan>(
          entry_.graph, pass->roots, one_place(model_, pass->workspace, pass->block),
          PlanOptions{
              .rows = rows, .exact = model_.options().exact, .fuse = model_.options().fuse});
    }
    rows_ = rows;
  }
  for (const auto& pass : passes_) {
    std::ranges::copy(ids, pass->block.input<int32_t>("tokens").begin());
    pass->plan->run();
    add_rows(*pass, rows);
  }
}

void ImportanceCollector::add_rows(const Pass& pass, int32_t rows) {
  size_t root = 0;
  for (const Input* input : pass.inputs) {
    const Operand& x = pass.plan->root(root++);
    const Operand* gates = input->gates ? &pass.plan->root(root++) : nullptr;
    add_input(*input, x, gates, rows);
    for (const Experts& experts : input->experts) add_experts(experts, x, *gates, rows);
  }
}

// Each column belongs to one worker, so the sums do not depend on the number of workers.
void ImportanceCollector::add_input(const Input& input, const Operand& x, const Operand* gates,
                                    int32_t rows) {
  if (input.weights.empty()) return;
  const int64_t width = x.cols / input.heads;
  const auto cols = static_cast<size_t>(input.used > 0 ? input.used : width);
  const auto parts = static_cast<size_t>(gates == nullptr ? input.heads : gates->cols);
  ImportanceSums& sums = sums_[input.weights.front()];
  sums.squares.resize(cols * parts);
  sums.counts.resize(parts);
  const auto used = [&](int64_t r, size_t part) {
    return gates == nullptr || gates->row<float>(r)[part] != 0;
  };
  for (int64_t r = 0; r < rows; ++r)
    for (size_t part = 0; part < parts; ++part) sums.counts[part] += used(r, part) ? 1 : 0;
  model_.pool().parallel_for(static_cast<int64_t>(cols), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < rows; ++r)
      for (size_t part = 0; part < parts; ++part) {
        if (!used(r, part)) continue;
        const float* row =
            x.row<float>(r) + (gates == nullptr ? width * static_cast<int64_t>(part) : 0);
        double* const to = sums.squares.data() + part * cols;
        for (int64_t c = begin; c < end; ++c) to[c] += double{row[c]} * row[c];
      }
  });
  for (size_t i = 1; i < input.weights.size(); ++i) sums_[input.weights[i]] = sums;
}

namespace {

/// Decodes the rows of a tensor to f32. The tensor must outlive it.
class FloatRows {
 public:
  explicit FloatRows(const TensorView* tensor) {
    if (tensor == nullptr) return;
    rows_ = decoded(*tensor);
    columns_ = static_cast<size_t>(tensor->columns());
  }
  explicit operator bool() const { return columns_ > 0; }
  void read(int64_t row, std::vector<float>& out) const {
    out.resize(columns_);
    read_rows(rows_, row, row + 1, reinterpret_cast<std::byte*>(out.data()));
  }

 private:
  TensorView rows_;
  size_t columns_ = 0;
};

// Sums in one fixed order.
float dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 16;
  std::array<float, kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float lane : sums) sum += lane;
  return sum;
}

}  // namespace

// Each row of the up and gate projections belongs to one worker.
void ImportanceCollector::add_experts(const Experts& experts, const Operand& x,
                                      const Operand& gates, int32_t rows) {
  const ModelFile& file = model_.file();
  const FloatRows gate_rows(file.find(experts.gate)), up_rows(file.find(experts.up));
  std::vector<float> biases[2];
  for (const auto& [name, bias] :
       {std::pair{&experts.gate_bias, &biases[0]}, std::pair{&experts.up_bias, &biases[1]}}) {
    if (name->empty()) continue;
    const FloatRows all(file.find(*name));
    const int64_t count = file.find(*name)->elements() / file.find(*name)->columns();
    std::vector<float> row;
    for (int64_t r = 0; r < count; ++r)
      all.read(r, row), bias->insert(bias->end(), row.begin(), row.end());
  }
  const int64_t hidden = file.find(experts.down)->columns();
  ImportanceSums& sums = sums_[experts.down];
  sums.squares.resize(static_cast<size_t>(hidden * gates.cols));
  sums.counts.resize(static_cast<size_t>(gates.cols));
  std::vector<std::vector<int64_t>> used(static_cast<size_t>(gates.cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t e = 0; e < gates.cols; ++e)
      if (gates.row<float>(r)[e] != 0) used[static_cast<size_t>(e)].push_back(r);
  for (size_t e = 0; e < used.size(); ++e) sums.counts[e] += std::ssize(used[e]);
  const auto bias = [](const std::vector<float>& all, int64_t at) {
    return all.empty() ? 0.0F : all[static_cast<size_t>(at)];
  };
  model_.pool().parallel_for(hidden * gates.cols, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> gate, up;
    for (int64_t j = begin; j < end; ++j) {
      const int64_t e = j / hidden;
      if (used[static_cast<size_t>(e)].empty()) continue;
      if (gate_rows) gate_rows.read(j, gate);
      up_rows.read(j, up);
      double& sum = sums.squares[static_cast<size_t>(j)];
      for (const int64_t r : used[static_cast<size_t>(e)]) {
        const float* row = x.row<float>(r);
        const float weight = experts.attr.gate_input ? gates.row<float>(r)[e] : 1;
        const auto product = [&](const std::vector<float>& w, const std::vector<float>& biases_of) {
          return (dot(row, w.data(), x.cols) + bias(biases_of, j)) * weight;
        };
        const float u = product(up, biases[1]);
        const double h = gate_rows ? gated(experts.attr, product(gate, biases[0]), u)
                                   : activated(u, experts.attr.activation);
        sum += h * h;
      }
    }
  });
}

}  // namespace veery
