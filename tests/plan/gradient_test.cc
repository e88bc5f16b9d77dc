// Definitions for serving can be trained too: gradients equal central differences, the loss falls,
// and serving plans give the logits of the training trace.
#include "autodiff/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "model/arch/registry.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"

namespace veery {
namespace {

constexpr int kTokens = 11;

// Sets the recurrent layers of families that have them; in hybrids every other layer is attention.
void set_recurrent(TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  const std::string& name = c.architecture;
  r.heads = 4;
  r.key_heads = 2;
  r.key_size = 5;
  r.value_size = 3;
  r.conv_width = 3;
  if (name == "qwen35") r.mixer = Mixer::kDelta, r.layers = {true, false};
  if (name == "mamba2") r.mixer = Mixer::kMamba2, r.groups = r.key_heads, c.layers = 3;
  if (name == "xlstm")
    r.mixer = Mixer::kMlstm, r.key_heads = 4, r.value_size = 18, r.gate_softcap = 15;
  if (name == "lfm2") r.mixer = Mixer::kShortConv, r.layers = {true, false};
  if (r.mixer == Mixer::kNone) r = {};
}

TransformerConfig tiny(const std::string& architecture) {
  TransformerConfig c = initial_config(find_architecture(architecture));
  c.vocab = 23;
  c.dim = 12;
  c.feed_forward.hidden = 20;
  c.layers = 2;
  c.attention.heads = 3;
  c.attention.kv_heads = 1;
  c.attention.head_dim = 6;
  c.norms.eps = 1e-5F;
  c.positions.rope = {.dims = 6, .theta = 100};
  c.attention.scale = 1 / std::sqrt(6.0F);
  c.output.tied = true;
  c.positions.local_rope = c.positions.rope;
  c.context = kTokens;
  if (c.positions.kind != Positions::kRope) c.positions.rope = c.positions.local_rope = {};
  if (find_architecture(architecture).gguf_interleaved_rope) c.positions.interleaved = true;
  if (architecture == "granite") c.residual.scale = 0.7F, c.output.scale = 1.3F;
  if (architecture == "gptneox")
    c.residual.parallel = true, c.feed_forward.activation = Activation::kGeluErf;
  if (architecture == "cohere2")
    c.attention.window = 4, c.attention.local = local_pattern(c.layers, 2);
  if (architecture == "nemotron") c.feed_forward.activation = Activation::kReluSquared;
  if (architecture == "apertus")
    c.feed_forward.activation = Activation::kXielu,
    c.feed_forward.xielu = {{0.2F, -0.5F, 0.5F, -1e-6F}, {-1, 0.7F, 0.4F}};
  find_architecture(architecture).complete(c);
  set_recurrent(c);
  if (architecture == "gemma3") {
    c.attention.window = 4;
    c.attention.local = local_pattern(c.layers, 2);
    c.positions.rope.theta = 1000;
    c.positions.local_rope.theta = 50;
  }
  if (architecture == "gemma4") {
    c.attention.window = 4;
    c.layers = 4;
    c.attention.local = local_pattern(c.layers, 2);
    c.attention.local_head_dim = 4;
    c.attention.local_kv_heads = 3;
    c.positions.local_rope = {.dims = 4, .theta = 50};
    c.attention.shared_kv_layers = 2;
    c.feed_forward.shared_kv_hidden = 28;
    c.input.layer_input = 5;
    c.input.layer_input_rows = c.vocab;
  }
  return c;
}

/// A definition traced for training, with random weights and a random sequence.
class Trained {
 public:
  explicit Trained(const std::string& architecture)
      : config(tiny(architecture)), block(test::usual_inputs(), kTokens), pool(2) {
    Trace t(graph, TraceMode::kTrain, Weights(weight_rules(architecture)));
    logits = find_architecture(architecture).define(t, config);
    loss = cross_entropy(logits, t.targets());
    Random random(7);
    for (NodeId id = 0, end = graph.size(); id < end; ++id) {
      if (graph[id].op != op::kParam) continue;
      weights.emplace_back(graph, id);
      const Operand& w = params.add(graph[id].name, graph[id].shape());
      const bool norm = graph[id].name.ends_with("norm.weight") ||
                        graph[id].name.ends_with("output_scale.weight");
      for (int64_t r = 0; r < w.rows; ++r)
        for (int32_t i = 0; i < w.cols; ++i)
          w.row<float>(r)[i] = norm ? 1 + 0.1F * random.normal() : 0.3F * random.normal();
    }
    grads = gradient(loss, weights);
    for (int i = 0; i < kTokens; ++i) {
      block.input<int32_t>("tokens")[static_cast<size_t>(i)] =
          static_cast<int32_t>(random.next() % 23);
      block.input<int32_t>("targets")[static_cast<size_t>(i)] =
          i == 3 ? -1 : static_cast<int32_t>(random.next() % 23);
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

  TransformerConfig config;
  Graph graph;
  Array logits, loss;
  std::vector<Array> weights, grads;
  ParamStore params;
  RunBlock block;
  ThreadPool pool;
  std::unique_ptr<Backend> backend = make_cpu_backend(pool, Target::kReference);
};

class Definitions : public ::testing::TestWithParam<const char*> {};

TEST_P(Definitions, GradientsEqualCentralDifferences) {
  Trained m(GetParam());
  std::vector<Array> roots{m.loss};
  roots.insert(roots.end(), m.grads.begin(), m.grads.end());
  const auto plan = m.plan(roots, true);
  const auto forward = m.plan({m.loss}, false);
  plan->run();
  const auto loss_at = [&](float& weight, float value) {
    const float keep = std::exchange(weight, value);
    forward->run();
    weight = keep;
    return static_cast<double>(*forward->root(0).row<float>(0));
  };
  int checked = 0;
  for (size_t i = 0; i < m.weights.size(); ++i) {
    const Operand& w = m.params.at(m.graph[m.weights[i].id()].name);
    const Operand& grad = plan->root(i + 1);
    for (int64_t r = 0; r < w.rows; r += std::max<int64_t>(1, w.rows / 4)) {
      const int32_t col = static_cast<int32_t>((r * 7 + 3) % w.cols);
      float& x = w.row<float>(r)[col];
      const float h = 2e-3F;
      const double expected =
          (loss_at(x, x + h) - loss_at(x, x - h)) / (2 * static_cast<double>(h));
      EXPECT_NEAR(grad.row<float>(r)[col], expected, 2e-3 + 1e-2 * std::abs(expected))
          << m.graph[m.weights[i].id()].name << " " << r << " " << col;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST_P(Definitions, GradientDescentLowersTheLoss) {
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
TEST_P(Definitions, ServingEqualsTraining) {
  Trained m(GetParam());
  const auto reference = m.plan({m.logits}, false);
  reference->run();
  Graph graph;
  Trace t(graph, TraceMode::kServe, Weights(weight_rules(GetParam())));
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

INSTANTIATE_TEST_SUITE_P(All, Definitions,
                         ::testing::Values("llama", "gemma3", "gemma4", "granite", "olmo2",
                                           "cohere2", "gpt2", "gptneox", "nemotron", "apertus",
                                           "bloom", "qwen35", "mamba2", "xlstm", "lfm2"));

}  // namespace
}  // namespace veery
