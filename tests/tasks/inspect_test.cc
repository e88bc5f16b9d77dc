// Activations against those of transformers (recorded by tools/oracle/compare_inspect.py) and
// against the answers of the model itself.
#include "tasks/inspect/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

constexpr InspectWhat kAll{true, true, true, true, true};

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

const Json& recorded() {
  static const Json all = test::read_fixture("inspect.json");
  return all;
}

// Returns the largest difference over the largest expected value or 1.
double difference(std::span<const float> found, const Json& expected, bool relative) {
  const auto values = expected.get<std::vector<double>>();
  EXPECT_EQ(found.size(), values.size());
  if (found.size() != values.size()) return 1e9;
  double worst = 0, largest = relative ? 0 : 1;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(found[i] - values[i]));
    if (relative) largest = std::max(largest, std::abs(values[i]));
  }
  return worst / largest;
}

struct Text {
  std::vector<int32_t> ids;
  int64_t rows() const { return std::ssize(ids); }
};

Text text_of(const std::string& name) {
  return {recorded()["models"][name]["ids"].get<std::vector<int32_t>>()};
}

class Inspect : public ::testing::TestWithParam<const char*> {};

TEST_P(Inspect, MapsAndHiddenStatesMatchTransformers) {
  const Json& expected = recorded()["models"][GetParam()];
  const Text text = text_of(GetParam());
  const auto shown = recorded()["shown"].get<int64_t>();
  Model model(folder_of(GetParam()), {.threads = 2, .exact = true});
  Inspector inspector(model);
  const Inspection found = inspector.run(text.ids, {.what = kAll, .top = 3});
  ASSERT_EQ(found.layers.size(), expected["mixers"].size());
  const auto last_rows = [&](const std::vector<float>& all) {
    const size_t row = all.size() / text.ids.size();
    return std::span(all).last(row * static_cast<size_t>(shown));
  };
  for (const LayerInspection& layer : found.layers) {
    const auto i = static_cast<size_t>(layer.layer);
    EXPECT_EQ(layer.mixer, expected["mixers"][i].string());
    EXPECT_EQ(layer.attends, expected["attention"].contains(std::to_string(i)));
    // The last hidden state of transformers is after the final norm.
    const bool last = i + 1 == found.layers.size();
    EXPECT_LT(
        difference(last_rows(last ? found.final : layer.hidden), expected["hidden"][i + 1], true),
        2e-4)
        << i;
    if (!layer.attends) {
      EXPECT_TRUE(layer.attention.empty() && layer.queries.empty() && layer.keys.empty());
      continue;
    }
    std::vector<float> rows;
    const int64_t n = text.rows();
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      const auto end = layer.attention.begin() + static_cast<int64_t>(h + 1) * n * n;
      rows.insert(rows.end(), end - shown * n, end);
    }
    EXPECT_LT(difference(rows, expected["attention"][std::to_string(i)], false), 2e-4) << i;
  }
  EXPECT_LT(difference(last_rows(found.embedding), expected["hidden"][0], true), 2e-4);
}

// Each query attends to the positions of mask and window only; the rest up to 1 goes to sinks.
TEST_P(Inspect, MapsAreProbabilitiesOverVisiblePositions) {
  const Text text = text_of(GetParam());
  Model model(folder_of(GetParam()), {.threads = 1, .exact = true});
  const Inspection found = Inspector(model).run(text.ids, {.what = kAll, .top = 1});
  const int64_t n = text.rows();
  for (const LayerInspection& layer : found.layers) {
    for (size_t at = 0; at < layer.attention.size(); at += static_cast<size_t>(n)) {
      const int64_t query = static_cast<int64_t>(at) / n % n;
      double sum = 0;
      for (int64_t p = 0; p < n; ++p) {
        const float probability = layer.attention[at + static_cast<size_t>(p)];
        const bool seen =
            p <= query &&
            (layer.window == 0 ||
             (layer.chunked ? p / layer.window == query / layer.window : p > query - layer.window));
        ASSERT_TRUE(seen || probability == 0) << layer.layer << " " << query << " " << p;
        sum += probability;
      }
      ASSERT_NEAR(sum, 1, layer.sinks ? 0.9999 : 1e-5);
    }
  }
}

TEST_P(Inspect, TheLensOfTheLastLayerIsThePrediction) {
  const Text text = text_of(GetParam());
  Model model(folder_of(GetParam()), {.threads = 1, .exact = true});
  const int32_t last = model.config().layers - 1;
  const Inspection found =
      Inspector(model).run(text.ids, {.what = {.lens = true}, .layers = {last}, .top = 2});
  test::OneSequence session(model, text.rows());
  session.feed_all(text.ids, [&](int32_t position, std::span<const float> logits) {
    const LensToken& first = found.layers[0].lens[static_cast<size_t>(2 * position)];
    const auto best = std::ranges::max_element(logits);
    EXPECT_EQ(first.id, best - logits.begin()) << position;
    double sum = 0;
    for (const float x : logits) sum += std::exp(double{x} - *best);
    EXPECT_NEAR(first.probability, 1 / sum, 1e-5) << position;
    EXPECT_GE(first.probability, (&first)[1].probability);
  });
}

std::string test_name(const ::testing::TestParamInfo<const char*>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Inspect,
                         ::testing::Values("llama-llama3", "gemma2", "gemma4", "gpt-oss",
                                           "deepseek-v2", "qwen3moe", "mpt", "bloom", "qwen3next",
                                           "falcon-h1", "llama4", "cohere2", "phi3-longrope",
                                           "gpt2"),
                         test_name);

TEST(Inspector, SelectedPartsEqualThoseOfAll) {
  const Text text = text_of("llama-llama3");
  Model model(folder_of("llama-llama3"), {.threads = 2});
  Inspector inspector(model);
  const Inspection whole = inspector.run(text.ids, {.what = kAll});
  const std::vector<int32_t>& heads = whole.layers[1].heads;
  const int32_t head = heads.back();
  size_t steps = 0;
  const Inspection part = inspector.run(
      text.ids,
      {.what = {.attention = true, .queries = true, .keys = true}, .layers = {1}, .heads = {head}},
      [&](size_t done, size_t all) { steps += done == all; });
  EXPECT_EQ(steps, 1U);
  ASSERT_EQ(part.layers.size(), 1U);
  const LayerInspection& one = part.layers[0];
  const LayerInspection& all = whole.layers[1];
  EXPECT_EQ(one.layer, 1);
  EXPECT_EQ(one.heads, std::vector{head});
  EXPECT_EQ(one.key_heads, std::vector{all.key_heads.back()});
  const auto is_end = [](const std::vector<float>& short_one, const std::vector<float>& whole_one) {
    return !short_one.empty() &&
           std::ranges::equal(short_one, std::span(whole_one).last(short_one.size()));
  };
  EXPECT_TRUE(is_end(one.attention, all.attention));
  EXPECT_TRUE(is_end(one.queries, all.queries));
  EXPECT_TRUE(is_end(one.keys, all.keys));
  EXPECT_TRUE(one.hidden.empty() && one.lens.empty() && part.embedding.empty());
}

// The softmax of q k^T over visible positions is the map.
TEST(Inspector, QueriesAndKeysMakeTheMap) {
  const Text text = text_of("qwen3moe");
  Model model(folder_of("qwen3moe"), {.threads = 1});
  const Inspection found = Inspector(model).run(text.ids, {.what = kAll});
  const LayerInspection& layer = found.layers.back();
  const size_t n = text.ids.size(), size = static_cast<size_t>(layer.head_size);
  const size_t group = layer.heads.size() / layer.key_heads.size();
  const size_t query = n - 1;
  for (size_t h = 0; h < layer.heads.size(); ++h) {
    std::vector<double> scores(n);
    double sum = 0;
    for (size_t p = 0; p < n; ++p) {
      for (size_t i = 0; i < size; ++i)
        scores[p] += double{layer.queries[(h * n + query) * size + i]} *
                     layer.keys[(h / group * n + p) * size + i];
      sum += scores[p] = std::exp(scores[p] * layer.scale);
    }
    for (size_t p = 0; p < n; ++p)
      EXPECT_NEAR(layer.attention[(h * n + query) * n + p], scores[p] / sum, 1e-5) << h << " " << p;
  }
}

TEST(Inspector, AnEncodersMapsAreFullAndItHasNoLens) {
  const std::string folder = test::fixture_path("encoders/bert-mean");
  Model model(folder, {.threads = 1, .entry = [](ModelFile& file, const TransformerConfig& config) {
                         return inspect_entry(file, config, true);
                       }});
  Inspector inspector(model);
  EXPECT_FALSE(inspector.has_lens());
  const std::vector<int32_t> ids = {2, 7, 11, 5, 3};
  const Inspection found = inspector.run(ids, {.what = {.attention = true, .hidden = true}});
  for (const LayerInspection& layer : found.layers) {
    EXPECT_TRUE(std::ranges::all_of(layer.attention, [](float p) { return p > 0; }));
    EXPECT_NEAR(std::accumulate(layer.attention.begin(), layer.attention.end(), 0.0),
                static_cast<double>(layer.heads.size() * ids.size()), 1e-4);
  }
  EXPECT_EQ(found.final, found.layers.back().hidden);  // BERT has no final norm
  EXPECT_THROW(inspector.run(ids, {.what = {.lens = true}}), Error);
}

void expect_refused(Inspector& inspector, std::span<const int32_t> ids,
                    const InspectOptions& options, ErrorKind kind, const std::string& said) {
  try {
    inspector.run(ids, options);
    ADD_FAILURE() << "nothing was thrown, expected: " << said;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
  }
}

// Sparse attention selects positions, so its maps would be of others. The other values exist.
TEST(Inspector, HasNoMapsOfSparseAttention) {
  Model model(folder_of("deepseek-v32-sparse"), {.threads = 1});
  Inspector inspector(model);
  const std::vector<int32_t> ids(10, 5);
  expect_refused(inspector, ids, {.what = {.attention = true}}, ErrorKind::kUnsupported,
                 "attends to 9 selected positions");
  EXPECT_EQ(inspector.run(ids, {.what = {.hidden = true}}).layers.size(), 2U);
  const auto map = inspector.run(std::span(ids).first(9), {.what = {.attention = true}});
  EXPECT_EQ(map.layers[0].attention.size(), 3U * 9 * 9);
}

TEST(Inspector, RefusesInvalidRequests) {
  Model model(folder_of("llama-llama3"), {.threads = 1});
  Inspector inspector(model);
  const std::vector<int32_t> ids = {5, 6, 7};
  const InspectWhat maps{.attention = true};
  expect_refused(inspector, {}, {.what = maps}, ErrorKind::kInput, "without tokens");
  expect_refused(inspector, std::vector{5, 1000}, {.what = maps}, ErrorKind::kInput, "1000");
  expect_refused(inspector, ids, {}, ErrorKind::kInput, "nothing to inspect");
  expect_refused(inspector, ids, {.what = maps, .layers = {2}}, ErrorKind::kInput,
                 "layer: found 2");
  expect_refused(inspector, ids, {.what = maps, .layers = {1, 0}}, ErrorKind::kInput, "ascending");
  expect_refused(inspector, ids, {.what = maps, .heads = {-1}}, ErrorKind::kInput,
                 "head: found -1");
  expect_refused(inspector, ids, {.what = {.lens = true}, .top = 0}, ErrorKind::kInput, "top is 0");
  expect_refused(inspector, std::vector<int32_t>(100000, 5), {.what = maps}, ErrorKind::kLimit,
                 "100000 tokens");
  expect_refused(inspector, ids, {.what = maps, .most_bytes = 100}, ErrorKind::kLimit, "MB");
  const std::vector<std::string> names = {"keys", "weights"};
  EXPECT_THROW(parse_inspect_what(names), Error);
  EXPECT_THROW(Model(test::fixture_path("whisper/a"),
                     {.threads = 1,
                      .entry =
                          [](ModelFile& file, const TransformerConfig& config) {
                            return inspect_entry(file, config, true);
                          }}),
               Error);
}

}  // namespace
}  // namespace veery
