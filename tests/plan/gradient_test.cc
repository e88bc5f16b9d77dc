// Definitions for serving can be trained too: gradients equal central differences, the loss falls,
// and serving plans give the logits of the training trace.
#include "autodiff/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"
#include "plan/tiny_models.h"
#include "support/sanitized.h"

namespace veery {
namespace {

constexpr int kTokens = test::kTinyTokens;

/// A definition traced for training, with random weights and a random sequence. Encoders give
/// hidden states instead of logits.
class Trained {
 public:
  explicit Trained(const std::string& architecture, int threads = 2)
      : config(test::tiny(architecture)),
        file(test::file_of_parts(config)),
        block(test::usual_inputs(), kTokens),
        pool(threads) {
    const bool encoder = config.attention.mask != Mask::kCausal;
    Trace t(graph, encoder ? TraceMode::kEncode : TraceMode::kTrain, parts());
    logits = find_architecture(architecture).define(t, config);
    loss = cross_entropy(logits, t.targets());
    Random random(7);
    for (NodeId id = 0, end = graph.size(); id < end; ++id) {
      if (graph[id].op != op::kParam) continue;
      weights.emplace_back(graph, id);
      const Operand& w = params.add(graph[id].name, graph[id].shape());
      const bool norm = graph[id].name.ends_with("norm.weight") ||
                        graph[id].name.ends_with("output_scale.weight") ||
                        graph[id].name.starts_with("rope_freqs");
      for (int64_t r = 0; r < w.rows; ++r)
        for (int32_t i = 0; i < w.cols; ++i)
          w.row<float>(r)[i] = norm ? 1 + 0.1F * random.normal() : 0.3F * random.normal();
    }
    grads = gradient(loss, weights);
    for (int i = 0; i < kTokens; ++i) {
      block.input<int32_t>("tokens")[static_cast<size_t>(i)] =
          static_cast<int32_t>(random.next() % 23);
      block.input<int32_t>("targets")[static_cast<size_t>(i)] =
          i == 3
              ? -1
              : static_cast<int32_t>(random.next() % static_cast<uint64_t>(logits.shape().cols()));
    }
    block.add_span(0, kTokens, 0);
    block.shape.outputs = kTokens;
    block.shape.sequences = 1;
  }

  std::unique_ptr<Plan> plan(const std::vector<Array>& arrays, bool fuse) {
    std::vector<Value> roots;
    for (const Array& a : arrays) roots.push_back(a.value());
    return std::make_unique<Plan>(graph, roots,
                                  Binding{{{backend.get(), &params}}, nullptr, &block},
                                  PlanOptions{.rows = kTokens, .outputs = kTokens, .fuse = fuse});
  }

  Weights parts() const { return {weight_rules(config.architecture), file}; }

  TransformerConfig config;
  ModelFile file;
  Graph graph;
  Array logits, loss;
  std::vector<Array> weights, grads;
  ParamStore params;
  RunBlock block;
  ThreadPool pool;
  std::unique_ptr<Backend> backend = make_cpu_backend(pool, Target::kReference);
};

/// Any architecture, and those that generate text.
class Definitions : public ::testing::TestWithParam<std::string> {};
class Decoders : public ::testing::TestWithParam<std::string> {};

/// The loss and everything that selects experts or positions, without gradients.
class Forward {
 public:
  explicit Forward(Trained& m) {
    std::vector<Array> roots{m.loss};
    for (NodeId id = 0; id < m.graph.size(); ++id)
      if (m.graph[id].op == op::kRoute || m.graph[id].op == op::kChoosePositions)
        roots.emplace_back(m.graph, id);
    plan_ = m.plan(roots, false);
    count_ = roots.size();
  }
  double loss() {
    plan_->run();
    return static_cast<double>(*plan_->root(0).row<float>(0));
  }
  /// Returns the gates and positions of the last run, one row after the other.
  std::vector<float> selections() const {
    std::vector<float> all;
    for (size_t i = 1; i < count_; ++i) {
      const Operand& o = plan_->root(i);
      for (int64_t r = 0; r < kTokens; ++r)
        for (int32_t c = 0; c < o.cols; ++c)
          all.push_back(o.dtype == DType::kI32 ? static_cast<float>(o.row<int32_t>(r)[c])
                                               : o.row<float>(r)[c]);
    }
    return all;
  }

 private:
  std::unique_ptr<Plan> plan_;
  size_t count_;
};

// Whether a weight of an expert jumped, or one was selected instead of another.
bool changed(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if ((a[i] == 0) != (b[i] == 0) || std::abs(a[i] - b[i]) > 0.1F) return true;
  return false;
}

TEST_P(Definitions, GradientsEqualCentralDifferences) {
  Trained m(GetParam());
  std::vector<Array> roots{m.loss};
  roots.insert(roots.end(), m.grads.begin(), m.grads.end());
  const auto plan = m.plan(roots, true);
  Forward forward(m);
  plan->run();
  constexpr float kStep = 1e-3F;
  int checked = 0, skipped = 0;
  for (size_t i = 0; i < m.weights.size(); ++i) {
    const std::string name = m.graph[m.weights[i].id()].name;
    const Operand& w = m.params.at(name);
    const Operand& grad = plan->root(i + 1);
    for (int64_t r = 0; r < w.rows; r += std::max<int64_t>(1, w.rows / 4)) {
      const int32_t col = static_cast<int32_t>((r * 7 + 3) % w.cols);
      float& x = w.row<float>(r)[col];
      const float keep = x;
      x = keep + kStep;
      const double above = forward.loss();
      const std::vector<float> selected = forward.selections();
      x = keep - kStep;
      const double expected = (above - forward.loss()) / (2 * double{kStep});
      x = keep;
      // The loss is not continuous where another expert or position is selected.
      if (changed(selected, forward.selections())) {
        ++skipped;
        continue;
      }
      EXPECT_NEAR(grad.row<float>(r)[col], expected, 2e-3 + 1e-2 * std::abs(expected))
          << name << " " << r << " " << col;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
  EXPECT_LT(skipped, checked / 4);
}

// The tangent of the loss along random directions of all weights is their product with the
// gradient.
TEST_P(Definitions, TangentsEqualGradients) {
  Trained m(GetParam());
  std::vector<Array> tangents;
  Random random(11);
  for (const Array& weight : m.weights) {
    const std::string name = "tangent of " + m.graph[weight.id()].name;
    const Operand& t = m.params.add(name, weight.shape());
    for (int64_t r = 0; r < t.rows; ++r)
      for (int32_t c = 0; c < t.cols; ++c) t.row<float>(r)[c] = random.normal();
    tangents.emplace_back(m.graph, m.graph.leaf(op::kParam, name, weight.shape()));
  }
  std::vector<Array> roots{jvp(m.loss, m.weights, tangents)};
  roots.insert(roots.end(), m.grads.begin(), m.grads.end());
  const auto plan = m.plan(roots, true);
  plan->run();
  double sum = 0, size = 0;
  for (size_t i = 0; i < m.weights.size(); ++i) {
    const Operand& t = m.params.at(tangents[i].node().name);
    const Operand& grad = plan->root(i + 1);
    for (int64_t r = 0; r < t.rows; ++r)
      for (int32_t c = 0; c < t.cols; ++c) {
        const double term = double{grad.row<float>(r)[c]} * t.row<float>(r)[c];
        sum += term, size += std::abs(term);
      }
  }
  EXPECT_GT(size, 1);
  EXPECT_NEAR(*plan->root(0).row<float>(0), sum, 1e-4 * size);
}

TEST_P(Definitions, GradientsDoNotDependOnTheNumberOfThreads) {
  Trained one(GetParam(), 1), three(GetParam(), 3);
  const auto a = one.plan(one.grads, true), b = three.plan(three.grads, true);
  a->run();
  b->run();
  for (size_t i = 0; i < one.weights.size(); ++i) {
    const Operand &x = a->root(i), &y = b->root(i);
    for (int64_t r = 0; r < x.rows; ++r)
      ASSERT_EQ(std::memcmp(x.row<float>(r), y.row<float>(r),
                            static_cast<size_t>(x.cols) * sizeof(float)),
                0)
          << one.weights[i].node().name << " " << r;
  }
}

TEST_P(Decoders, GradientDescentLowersTheLoss) {
  Trained m(GetParam());
  std::vector<Array> roots{m.loss};
  roots.insert(roots.end(), m.grads.begin(), m.grads.end());
  const auto plan = m.plan(roots, true);
  plan->run();
  const float before = *plan->root(0).row<float>(0);
  for (int step = 0; step < 150; ++step) {
    plan->run();
    for (size_t i = 0; i < m.weights.size(); ++i) {
      const Operand& w = m.params.at(m.graph[m.weights[i].id()].name);
      for (int64_t r = 0; r < w.rows; ++r)
        for (int32_t c = 0; c < w.cols; ++c)
          w.row<float>(r)[c] -= 0.1F * plan->root(i + 1).row<float>(r)[c];
    }
  }
  EXPECT_LT(*plan->root(0).row<float>(0), 0.3F * before);
}

// One definition serves both purposes: traced for serving, prefilled in two chunks and decoded
// token by token, fused and not fused, it gives the logits of the training trace.
TEST_P(Decoders, ServingEqualsTraining) {
  Trained m(GetParam());
  const auto reference = m.plan({m.logits}, false);
  reference->run();
  Graph graph;
  Trace t(graph, TraceMode::kServe, m.parts());
  const Array logits = find_architecture(GetParam()).define(t, m.config);
  for (bool fuse : {false, true}) {
    StateStore states(
        graph, {.keys = DType::kF32, .values = DType::kF32, .context = 512, .rows = kTokens});
    RunBlock block(graph, kTokens);
    std::vector<std::vector<int32_t>> pages;
    std::vector<PageTable> tables;
    for (const auto& group : states.groups()) {
      auto& list = pages.emplace_back();
      for (int32_t i = 0; i < group.ring; ++i)
        list.push_back(group.ring - 1 - i);  // any order will do
      tables.push_back({list.data(), group.ring});
    }
    block.shape.tables = tables.data();
    block.shape.sequences = 1;
    Plan plan(graph, {logits.id()}, {{{m.backend.get(), &m.params}}, &states, &block},
              {.rows = 5, .outputs = 5, .fuse = fuse});
    for (int begin = 0; begin < kTokens;) {
      const int rows = begin == 0 ? 5 : begin == 5 ? 3 : 1;
      for (int i = 0; i < rows; ++i) {
        block.input<int32_t>("tokens")[static_cast<size_t>(i)] =
            m.block.input<int32_t>("tokens")[static_cast<size_t>(begin + i)];
      }
      block.clear();
      block.add_span(0, rows, begin);
      for (int i = 0; i < rows; ++i) block.add_output(i);
      plan.run();
      for (int i = 0; i < rows; ++i)
        for (int32_t v = 0; v < 23; ++v)
          ASSERT_NEAR(plan.root(0).row<float>(i)[v], reference->root(0).row<float>(begin + i)[v],
                      2e-4)
              << "token " << begin + i << " fuse " << fuse;
      begin += rows;
    }
  }
}

// Decoders with cross-attention can be traced for serving only. With sanitizers, one architecture
// for each kind of layer suffices.
std::vector<std::string> names(bool encoders_too) {
  constexpr std::string_view kKinds[] = {
      "llama",       "gemma4",         "gpt2",       "apertus",  "bloom",      "qwen35",
      "mamba2",      "jamba",          "lfm2",       "xlstm",    "xlstm-lm",   "rwkv7",
      "gpt-oss",     "phimoe",         "llama4",     "qwen2moe", "deepseek32", "mistral4",
      "kimi-linear", "nemotron_h_moe", "modern-bert"};
  std::vector<std::string> result;
  for (const Architecture& row : architectures()) {
    if (test::kSanitized && std::ranges::find(kKinds, row.name) == std::end(kKinds)) continue;
    if (row.encoder == nullptr && (encoders_too || row.attention.mask == Mask::kCausal))
      result.emplace_back(row.name);
  }
  return result;
}
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Definitions, testing::ValuesIn(names(true)), test_name);
INSTANTIATE_TEST_SUITE_P(All, Decoders, testing::ValuesIn(names(false)), test_name);

}  // namespace
}  // namespace veery
