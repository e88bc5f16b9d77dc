// Chained decode on the GPU emulator: the sampled tokens are those of the host's sampler, and many
// steps are one submission.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/session.h"
#include "kernels/cuda/machine.h"
#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "sample/sampler.h"
#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::Matrix;
using test::SmallModel;
using test::some_ids;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kTop = 128;

/// A model whose logits depend only on the last token: rows of a table.
class Bigrams {
 public:
  explicit Bigrams(const Matrix& table, int sm_count = 2)
      : table_(table), backend_(gpu::make_backend(gpu::make_emulator(227 << 10, sm_count))) {}

  int32_t vocab() const { return table_.operand.cols; }
  std::span<const float> logits(int32_t id) const {
    return {table_[id], static_cast<size_t>(vocab())};
  }

  /// Returns the tokens that a chained decode produces after these last tokens.
  std::vector<std::vector<int32_t>> chain(const std::vector<int32_t>& last,
                                          std::span<const ChainRow> rows) const {
    const auto count = static_cast<int32_t>(last.size());
    test::Batch batch(count, kPagePositions);
    for (int32_t i = 0; i < count; ++i) batch.add(i, 1, 1);
    const std::vector<int32_t> outputs(last.size());
    RunShape shape = batch.shape();
    shape.output_rows = outputs.data();
    Matrix logits(count, vocab()), values(count, kTop), indices(count, kTop, DType::kI32),
        mass(count, 1);
    for (Matrix* m : {&logits, &values, &indices, &mass}) m->operand.rows = kOutputRows;
    Step embed{op::kEmbed, {}}, top{op::kTopK, {}};
    Operand& ids = embed.dispatch.in[EmbedIn::kIds];
    ids = row_major({{Symbol::kRows, 1}, DType::kI32});
    RunInput tokens{ids, Advance::kToken};
    tokens.host.data = reinterpret_cast<std::byte*>(const_cast<int32_t*>(last.data()));  // NOLINT
    ids.input = 0;
    embed.dispatch.in[EmbedIn::kWeight] = table_.operand;
    embed.dispatch.attr = ScaleAttr{1};
    embed.dispatch.out() = logits.operand;
    top.dispatch.in[UnaryIn::kX] = logits.operand;
    top.dispatch.attr = TopKAttr{kTop};
    top.dispatch.outputs = {values.operand, indices.operand, mass.operand};
    const Step table[] = {embed, top};
    const Operand results[] = {values.operand, indices.operand, mass.operand, logits.operand};
    const auto made = backend_->lower(table, results,
                                      {.shape = &shape,
                                       .groups = 1,
                                       .rows = count,
                                       .outputs = count,
                                       .first_fetched = 3,
                                       .inputs = {&tokens, 1}});
    EXPECT_EQ(made->chain_steps(), 128);
    EXPECT_TRUE(made->chain_draws());
    made->run_chain(shape, rows);
    std::vector<std::vector<int32_t>> all;
    for (int32_t i = 0; i < count; ++i)
      all.emplace_back(made->chosen(i).begin(), made->chosen(i).end());
    return all;
  }

 private:
  Matrix table_;
  std::shared_ptr<Backend> backend_;
};

/// Rows with random logits, many equal logits, few finite logits, or very large logits.
Matrix table_of(int32_t vocab, uint64_t seed) {
  Random random(seed);
  Matrix table = test::random_matrix(vocab, vocab, random, 3);
  for (int32_t r = 0; r < vocab; ++r)
    for (int32_t c = 0; c < vocab; ++c) {
      float& x = table[r][c];
      if (r % 5 == 1) x = std::round(x);
      if (r % 5 == 2 && c % 7 != r % 7) x = -kInfinity;
      if (r % 5 == 3) x *= c % 3 == 0 ? 1e4F : 1e-4F;
      if (r % 5 == 4) x = c % 2 == 0 ? 0.0F : -0.0F;
    }
  return table;
}

/// The tokens of the sampler. The first `known` of them can be sampled from the results of top_k()
/// alone.
struct Expected {
  std::vector<int32_t> ids;
  size_t known = 0;
};
Expected expected(const Bigrams& model, const SamplerOptions& options, std::vector<int32_t> history,
                  int32_t count, std::span<const int32_t> stops) {
  Sampler sampler(options);
  Expected made;
  bool stopped = false;
  while (std::ssize(made.ids) < count && !stopped) {
    history.push_back(sampler.sample(model.logits(history.back()), history));
    made.ids.push_back(history.back());
    stopped = std::ranges::find(stops, history.back()) != stops.end();
  }
  return made;
}

using Options = std::vector<SamplerOptions>;

/// Tests each setting with many seeds, as rows of one chained decode with different histories.
/// `whole`: the most probable tokens determine all tokens.
void expect_draws_of_sampler(const Bigrams& model, const Options& all, int32_t count, bool whole,
                             std::span<const int32_t> stops = {}) {
  const int seeds = test::kSanitized ? 2 : 6;
  for (int seed = 0; seed < seeds; ++seed) {
    std::vector<std::vector<int32_t>> histories;
    std::vector<std::unique_ptr<Sampler>> samplers;
    std::vector<int32_t> last;
    std::vector<ChainRow> rows;
    for (size_t i = 0; i < all.size(); ++i) {
      SamplerOptions options = all[i];
      options.seed = static_cast<uint64_t>(seed) * 0x123456789ABCDEF + i;
      std::vector<int32_t>& history = histories.emplace_back();
      for (int k = 0; k < 9; ++k)
        history.push_back(static_cast<int32_t>((i * 31 + static_cast<size_t>(k * k * (seed + 1))) %
                                               static_cast<size_t>(model.vocab())));
      samplers.push_back(std::make_unique<Sampler>(options));
      last.push_back(history.back());
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const auto row = samplers[i]->chain_row(histories[i], count);
      ASSERT_TRUE(row) << i;
      rows.push_back(*row);
      rows.back().stops = stops;
    }
    const auto made = model.chain(last, rows);
    for (size_t i = 0; i < all.size(); ++i) {
      const Expected of = expected(model, samplers[i]->options(), histories[i], count, stops);
      if (whole) {
        ASSERT_EQ(made[i], of.ids) << "settings " << i << " seed " << seed;
      }
      ASSERT_LE(made[i].size(), of.ids.size());
      ASSERT_TRUE(std::equal(made[i].begin(), made[i].end(), of.ids.begin()))
          << "settings " << i << " seed " << seed;
    }
  }
}

SamplerOptions with(const std::function<void(SamplerOptions&)>& change) {
  SamplerOptions options;
  change(options);
  return options;
}

TEST(GpuChain, DrawsWhatTheSamplerDraws) {
  Options all = {
      with([](auto&) {}),
      with([](auto& o) { o.temperature = 3; }),
      with([](auto& o) { o.temperature = 1e-6F; }),
      with([](auto& o) { o.temperature = 0; }),
      with([](auto& o) { o.top_k = 1; }),
      with([](auto& o) { o.top_k = 100, o.top_p = 1, o.min_p = 0, o.temperature = 1.5F; }),
      with([](auto& o) { o.top_k = 0, o.min_p = 0, o.top_p = 0.5F; }),
      with([](auto& o) { o.top_p = 0; }),
      with([](auto& o) { o.top_k = 0, o.min_p = 0.2F, o.top_p = 1, o.temperature = 2; }),
      with([](auto& o) { o.top_k = 3, o.min_p = 0, o.top_p = 0.9F; }),
  };
  expect_draws_of_sampler(Bigrams(table_of(90, 1)), all, 40, true);
  // There may be more equal logits than top_k() returns.
  const Bigrams larger(table_of(300, 2));
  expect_draws_of_sampler(larger, all, 40, false);
  std::erase_if(all, [](const SamplerOptions& o) { return o.top_k <= 0; });
  expect_draws_of_sampler(larger, all, 40, true);
}

TEST(GpuChain, PenaltiesAndBiasesAreThoseOfTheSampler) {
  const Options all = {
      with([](auto& o) { o.repeat_penalty = 1.3F; }),
      with([](auto& o) { o.repeat_penalty = 2, o.repeat_last_n = 3, o.temperature = 0; }),
      with([](auto& o) { o.presence_penalty = 1.5F, o.repeat_last_n = -1; }),
      with([](auto& o) { o.frequency_penalty = -0.7F, o.repeat_last_n = 12; }),
      with([](auto& o) {
        o.frequency_penalty = 0.3F, o.presence_penalty = -0.2F, o.repeat_penalty = 1.1F;
      }),
      with([](auto& o) {
        o.bias = {{3, 2.5F}, {70, -kInfinity}, {3, 0.1F}, {-4, 1}, {900, 1}};
      }),
      with([](auto& o) {
        o.bias = {{8, 4}}, o.temperature = 0;
      }),
      with([](auto& o) {
        o.bias = {{8, 4}, {9, 4}}, o.repeat_penalty = 1.5F;
      }),
      with([](auto&) {}),
  };
  expect_draws_of_sampler(Bigrams(table_of(90, 3)), all, 40, true);
  // Several thread blocks share a row, and each changes its own logits.
  Options few = {all[0], all[3], all[7]};
  for (SamplerOptions& options : few) options.bias.push_back({2077, 6});
  expect_draws_of_sampler(Bigrams(table_of(2100, 6), 64), few, 8, true);
}

TEST(GpuChain, RowsEndAtEndTokensAndLimits) {
  const std::vector<int32_t> stops = {4, 17, 33, 50, 51, 52, 80};
  const Options all(6, with([](auto& o) { o.temperature = 2; }));
  expect_draws_of_sampler(Bigrams(table_of(90, 4)), all, 100, true, stops);
  expect_draws_of_sampler(Bigrams(table_of(90, 5)), all, 1, true);
}

// If the most probable tokens do not suffice for a row, its tokens up to there are correct, and
// other rows continue to the end.
TEST(GpuChain, EndsIfTheTopTokensDoNotSuffice) {
  Random random(9);
  Matrix flat(300, 300);
  for (int32_t r = 0; r < 300; ++r)
    for (int32_t c = 0; c < 300; ++c)
      flat[r][c] = (r < 150 ? 5.0F : 0.01F) * static_cast<float>(random.normal());
  const Bigrams model(flat);
  const SamplerOptions wide =
      with([](auto& o) { o.top_k = 0, o.min_p = 0, o.top_p = 0.99F, o.temperature = 1; });
  Sampler sampler(wide), usual{SamplerOptions{}};
  const std::vector<int32_t> history = {20};
  const std::vector<ChainRow> rows = {*sampler.chain_row(history, 128),
                                      *usual.chain_row(history, 128)};
  const auto made = model.chain({20, 20}, rows);
  EXPECT_GT(made[0].size(), 0U);
  ASSERT_LT(made[0].size(), 128U) << "a flat row comes sooner or later";
  EXPECT_GE(made[0].back(), 150);
  EXPECT_EQ(made[1].size(), 128U);
  const auto all = expected(model, wide, history, 128, {}).ids;
  EXPECT_TRUE(std::equal(made[0].begin(), made[0].end(), all.begin()));
}

TEST(GpuChain, UnsupportedSettingsAreLeftToTheSampler) {
  const std::vector<int32_t> history(100, 5);
  const auto chains = [&](const std::function<void(SamplerOptions&)>& change) {
    return Sampler(with(change)).chain_row(history, 128).has_value();
  };
  EXPECT_TRUE(chains([](auto&) {}));
  EXPECT_FALSE(chains([](auto& o) { o.mirostat = 2; }));
  EXPECT_FALSE(chains([](auto& o) { o.typical_p = 0.9F; }));
  EXPECT_FALSE(chains([](auto& o) { o.xtc_probability = 0.1F; }));
  EXPECT_FALSE(chains([](auto& o) { o.dry_multiplier = 1; }));
  EXPECT_FALSE(chains([](auto& o) { o.top_n_sigma = 1; }));
  EXPECT_FALSE(chains([](auto& o) { o.dynatemp_range = 0.1F; }));
  EXPECT_FALSE(chains([](auto& o) { o.top_k = 0, o.top_p = 1, o.min_p = 0; }));
  EXPECT_FALSE(chains([](auto& o) { o.bias.resize(65); }));
  EXPECT_TRUE(chains([](auto& o) { o.repeat_penalty = 2, o.repeat_last_n = -1; }));
  const std::vector<int32_t> longer(1000, 5);
  const Sampler all(with([](auto& o) { o.repeat_penalty = 2, o.repeat_last_n = -1; }));
  EXPECT_TRUE(all.chain_row(longer, 24));
  EXPECT_FALSE(all.chain_row(longer, 25));
}

// The host side of CUDA.

struct Counted {
  std::vector<int32_t> ids;
  int runs = 0, copies = 0;
};
Counted chain_on_cuda(const SmallModel& model, bool loops, const SamplerOptions& sampling,
                      int32_t count) {
  LoadOptions options{.threads = 1, .context = 64, .chunk = 16};
  options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(loops), {}, 0))};
  Model of(model.path(), options);
  Session runner(of);
  Sampler sampler(sampling);
  std::vector<int32_t> ids = some_ids(7);
  RunPart part{runner.open(), std::span(ids).first(6), 0};
  runner.run({&part, 1});
  Counted counted;
  const bool draws = !sampler.greedy();
  while (std::ssize(counted.ids) < count) {
    part = {part.sequence, std::span(ids).last(1), 1};
    const int32_t most = runner.chain_steps({&part, 1}, draws);
    EXPECT_EQ(most, loops ? 128 : 8);
    const auto left = count - static_cast<int32_t>(counted.ids.size());
    const auto row = sampler.chain_row(ids, std::min(most, left));
    const int runs = cuda::fake_state().runs, copies = cuda::fake_state().copies;
    runner.run_chain({&part, 1}, {&*row, 1});
    counted.runs += cuda::fake_state().runs - runs;
    counted.copies += cuda::fake_state().copies - copies;
    EXPECT_EQ(std::ssize(runner.chosen(0)), row->most);
    EXPECT_EQ(runner.position(part.sequence), static_cast<int32_t>(ids.size()) - 1 + row->most);
    for (int32_t i = 0; i < row->most; ++i) {
      counted.ids.push_back(draw(runner, i, sampler, ids));
      ids.push_back(counted.ids.back());
    }
  }
  return counted;
}

TEST(CudaChain, IsOneSubmissionIfTheDriverHasLoops) {
  const SmallModel model(DType::kQ8_0);
  for (const float temperature : {0.0F, 0.9F}) {
    const SamplerOptions sampling = with([&](auto& o) { o.temperature = temperature, o.seed = 5; });
    const auto on_cpu = [&] {
      Model of(model.path(), {.threads = 1, .context = 64, .chunk = 16});
      Session runner(of);
      Sampler sampler(sampling);
      std::vector<int32_t> ids = some_ids(7);
      RunPart part{runner.open(), ids, 1};
      for (int i = 0; i < 41; ++i) {
        runner.run({&part, 1});
        ids.push_back(draw(runner, 0, sampler, ids));
        part.ids = std::span(ids).last(1);
      }
      return std::vector(ids.begin() + 7, ids.end());
    }();
    const Counted loop = chain_on_cuda(model, true, sampling, 41);
    EXPECT_EQ(loop.ids, on_cpu);
    EXPECT_EQ(loop.runs, 1);
    EXPECT_EQ(loop.copies, 0) << "they are nodes of the graph";
    const Counted unrolled = chain_on_cuda(model, false, sampling, 41);
    EXPECT_EQ(unrolled.ids, on_cpu);
    EXPECT_EQ(unrolled.runs, 6);
  }
  EXPECT_EQ(cuda::fake_state().graphs, 0);
  EXPECT_EQ(cuda::fake_state().used, 0U);
}

}  // namespace
}  // namespace veery
