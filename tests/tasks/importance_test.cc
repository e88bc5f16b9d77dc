// Sums of importance matrices for experts and heads of latent attention, against sums in double
// precision of the inputs of these products.
#include "tasks/inspect/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "file/folder/row_sources.h"
#include "graph/ops/linear.h"
#include "model/arch/entry.h"
#include "plan/plan.h"
#include "plan/run_block.h"
#include "support/models.h"

namespace veery {
namespace {

constexpr int32_t kRows = 24;

std::vector<int32_t> some_ids() {
  std::vector<int32_t> ids(kRows);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + 7 * i % 50);
  return ids;
}

// A model, and the values of its graph for some_ids().
class Values {
 public:
  explicit Values(const std::string& name)
      : model(test::fixture_path("tiny/" + name), {.threads = 2, .exact = true}),
        entry(inspect_entry(model.file(), model.config(), false)),
        block_(entry.graph, kRows) {
    block_.shape.sequences = 1;
    block_.add_span(0, kRows, 0);
    std::ranges::copy(some_ids(), block_.input<int32_t>("tokens").begin());
  }

  std::vector<std::vector<float>> rows(Value value) {
    Plan plan(entry.graph, {value},
              Binding{{{&model.backend(), &model.params(0)}}, nullptr, &block_},
              PlanOptions{.rows = kRows, .exact = true});
    plan.run();
    std::vector<std::vector<float>> all;
    for (int64_t r = 0; r < kRows; ++r) {
      const float* row = plan.root(0).row<float>(r);
      all.emplace_back(row, row + plan.root(0).cols);
    }
    return all;
  }

  // Returns all elements of a tensor; none if it is absent.
  std::vector<float> tensor(const Node& node, int input) {
    const Value value = node.in[static_cast<size_t>(input)];
    if (!value) return {};
    const TensorView view = decoded(model.file().at(entry.graph[value].name));
    std::vector<float> all(static_cast<size_t>(view.elements()));
    read_rows(view, 0, view.elements() / view.columns(), reinterpret_cast<std::byte*>(all.data()));
    return all;
  }

  std::map<std::string, ImportanceSums> collected() {
    ImportanceCollector collector(model);
    collector.read(some_ids());
    return collector.sums();
  }

  Model model;
  Entry entry;

 private:
  RunBlock block_;
};

void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  const double largest = *std::ranges::max_element(expected);
  ASSERT_GT(largest, 0) << name;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-4 * std::max(expected[i], 1e-3 * largest))
        << name << " " << i;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The hidden values of a gated expert by the definition of MoeAttr, with SiLU.
double hidden_value(const MoeAttr& attr, double g, double u) {
  if (attr.limit <= 0) return g * sigmoid(g) * u;
  g = std::min<double>(g, attr.limit);
  u = std::clamp<double>(u, -attr.limit, attr.limit);
  return g * sigmoid(attr.alpha * g) * (u + 1);
}

class ExpertSums : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertSums, OfDownProjectionsAreThoseOfTheirInputs) {
  Values values(GetParam());
  const auto sums = values.collected();
  int checked = 0;
  for (const Node& node : values.entry.graph.nodes()) {
    if (node.op != op::kMoe) continue;
    const auto x = values.rows(node.in[MoeIn::kX]), gates = values.rows(node.in[MoeIn::kGates]);
    const auto gate = values.tensor(node, MoeIn::kGate), up = values.tensor(node, MoeIn::kUp);
    const auto gate_bias = values.tensor(node, MoeIn::kGateBias);
    const auto up_bias = values.tensor(node, MoeIn::kUpBias);
    const size_t cols = x[0].size(), experts = gates[0].size(), hidden = up.size() / cols / experts;
    std::vector<double> expected(experts * hidden);
    std::vector<int64_t> counts(experts);
    const auto& attr = node.as<MoeAttr>();
    for (size_t e = 0; e < experts; ++e)
      for (size_t r = 0; r < x.size(); ++r) {
        if (gates[r][e] == 0) continue;
        ++counts[e];
        for (size_t j = e * hidden; j < (e + 1) * hidden; ++j) {
          double g = gate_bias.empty() ? 0 : gate_bias[j], u = up_bias.empty() ? 0 : up_bias[j];
          for (size_t c = 0; c < cols; ++c) {
            if (!gate.empty()) g += double{x[r][c]} * gate[j * cols + c];
            u += double{x[r][c]} * up[j * cols + c];
          }
          const double weight = attr.gate_input ? gates[r][e] : 1;
          const double relu = std::max(u, 0.0);  // experts without a gate have ReLU squared
          expected[j] +=
              std::pow(gate.empty() ? relu * relu : hidden_value(attr, g * weight, u * weight), 2);
        }
      }
    const std::string& name = values.entry.graph[node.in[MoeIn::kDown]].name;
    ASSERT_TRUE(sums.contains(name)) << name;
    EXPECT_EQ(sums.at(name).counts, counts) << name;
    EXPECT_GT(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 0);
    expect_close(sums.at(name).squares, expected, name);
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertSums,
                         ::testing::Values("mixtral", "qwen3moe", "llama4", "gpt-oss",
                                           "gpt-oss-mxfp4", "deepseek-v3", "nemotron-h-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ImportanceSums, OfLatentAttentionArePerHead) {
  Values values("deepseek-v3");
  const auto sums = values.collected();
  int checked = 0;
  for (const Node& node : values.entry.graph.nodes()) {
    if (node.op != op::kHeadLinear) continue;
    const auto x = values.rows(node.in[HeadLinearIn::kX]);
    const Value weight = node.in[HeadLinearIn::kWeight];
    const auto heads = static_cast<size_t>(node.as<HeadsAttr>().heads);
    const size_t cols = static_cast<size_t>(values.entry.graph.shape(weight).cols());
    const size_t width = x[0].size() / heads;
    std::vector<double> expected;
    for (size_t h = 0; h < heads; ++h)
      for (size_t c = 0; c < cols; ++c) {
        double sum = 0;
        for (const auto& row : x) sum += std::pow(double{row[h * width + c]}, 2);
        expected.push_back(sum);
      }
    const std::string& name = values.entry.graph[weight].name;
    ASSERT_TRUE(sums.contains(name)) << name;
    EXPECT_EQ(sums.at(name).counts, std::vector<int64_t>(heads, kRows)) << name;
    expect_close(sums.at(name).squares, expected, name);
    ++checked;
    EXPECT_TRUE(name.ends_with("attn_k_b.weight") || name.ends_with("attn_v_b.weight")) << name;
  }
  EXPECT_EQ(checked, 2 * values.model.config().layers);
}

}  // namespace
}  // namespace veery
