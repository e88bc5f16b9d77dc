// Every family of models on the emulator of GPUs: the logits of the CPU, bit for bit; where weights
// are of bf16, numbers near those, the same ones however a sequence is cut into runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/random.h"
#include "engine/embed.h"
#include "engine/runner.h"
#include "file/folder/safetensors.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/near_rows.h"
#include "support/sanitized.h"
#include "support/session.h"

namespace veery {
namespace {

const std::string kRecurrent[] = {"qwen35", "qwen3next", "mamba2",         "lfm2",
                                  "xlstm",  "xlstm-lm",  "kimi-linear",    "bamba",
                                  "jamba",  "rwkv7",     "nemotron-h-moe", "falcon-h1"};
bool is_recurrent(const std::string& name) {
  return std::ranges::find(kRecurrent, name) != std::end(kRecurrent);
}

// Whether some matrix has elements of bf16, that are not the scales of others.
bool has_bf16(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const StoredTensor& tensor : open_safetensors(entry.path()).tensors)
      if (tensor.type == StoredType::kBF16 && tensor.shape.size() > 1 &&
          !tensor.name.ends_with("scales") && !tensor.name.ends_with("biases"))
        return true;
  }
  return false;
}

using Ids = std::vector<int32_t>;
using Rows = std::vector<std::vector<float>>;

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

LoadOptions options_for(bool gpu) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = 64;
  if (gpu) options.backend = gpu::make_backend(gpu::make_emulator());
  return options;
}

// A prompt, and steps behind it, or steps only: logits of each row.
Rows logits_of(const std::string& folder, const LoadOptions& options, const Ids& ids) {
  Model model(folder, options);
  test::Session session(model);
  Rows rows;
  const auto keep = [&](int32_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  };
  const size_t steps = options.chunk == 1 ? ids.size() - 1 : std::min<size_t>(2, ids.size() - 1);
  session.feed_all(std::span(ids).first(ids.size() - steps), keep);
  for (size_t i = ids.size() - steps; i < ids.size(); ++i)
    session.feed_all(std::span(ids).subspan(i, 1), keep);
  return rows;
}

class GpuFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuFamilies, LogitsHaveTheBitsOfTheCpu) {
  if (test::kSanitized && !is_recurrent(GetParam())) return;
  const std::string folder = folder_of(GetParam());
  // More than are chosen, where positions are.
  const Ids ids = random_ids(GetParam().ends_with("-sparse") ? 40 : 9, 3);
  const auto logits = [&](bool gpu, int32_t chunk = 64) {
    LoadOptions options = options_for(gpu);
    options.chunk = chunk;
    return logits_of(folder, options, ids);
  };
  const Rows expected = logits(false);
  if (!has_bf16(folder)) {
    EXPECT_EQ(logits(true), expected);
    return;
  }
  const Rows own = logits(true);
  EXPECT_LT(test::distance(own, expected), test::kNear);
  EXPECT_EQ(logits(true, 1), own);
}

std::vector<std::string> folders_of(const char* kind) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::fixture_path(kind)))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, GpuFamilies, ::testing::ValuesIn(folders_of("tiny")), test_name);

// The last layers on the GPU, the others and their caches on the CPU.
class GpuLayers : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuLayers, LogitsDoNotDependOnWhereLayersAre) {
  if (test::kSanitized && !is_recurrent(GetParam()) && GetParam() != "llama-linear") return;
  const std::string folder = folder_of(GetParam());
  const Ids ids = random_ids(GetParam().ends_with("-sparse") ? 20 : 6, 3);
  const auto logits = [&](std::optional<int32_t> layers) {
    LoadOptions options = options_for(layers.has_value());
    options.backend_layers = layers;
    return logits_of(folder, options, ids);
  };
  const Rows expected = logits({});
  const int32_t layers = Model(folder, options_for(false)).config().layers;
  int32_t refused = 0;
  for (int32_t n = 0; n <= layers; ++n) {
    try {
      const Rows own = logits(n);
      if (has_bf16(folder) && n > 0)
        EXPECT_LT(test::distance(own, expected), test::kNear) << n;
      else
        EXPECT_EQ(own, expected) << n;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("both have to be on the same side"),
                std::string::npos)
          << error.what();
    }
  }
  // Layers that take keys and values of others.
  const std::string name = GetParam();
  const bool shares = name == "gemma4" || name == "gemma4-published";
  EXPECT_EQ(refused > 0, shares) << refused << " of " << layers;
}
INSTANTIATE_TEST_SUITE_P(All, GpuLayers, ::testing::ValuesIn(folders_of("tiny")), test_name);

// What sequences keep, through runs of several, forks, snapshots and going back.
class GpuRecurrent : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuRecurrent, WhatIsKeptFollowsItsSequence) {
  const auto logits = [&](bool gpu, std::optional<int32_t> layers = {}) {
    LoadOptions options = options_for(gpu);
    options.backend_layers = layers;
    Model model(folder_of(GetParam()), options);
    Runner runner(model, {.sequences = 3, .snapshots = 3, .snapshot_every = 6});
    const Ids ids = random_ids(40, 5);
    const std::span all(ids);
    Rows rows;
    const auto run = [&](std::initializer_list<RunPart> parts) {
      runner.run(parts);
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto row = runner.logits(static_cast<int32_t>(i));
        rows.emplace_back(row.begin(), row.end());
      }
    };
    const int32_t first = runner.open(), second = runner.open();
    run({{first, all.first(9), 1}, {second, all.subspan(20, 1), 1}});
    runner.save(first);
    run({{first, all.subspan(9, 5), 1}, {second, all.subspan(21, 4), 1}});
    const int32_t third = runner.fork(first, 9);
    run({{third, all.subspan(30, 2), 1}, {first, all.subspan(14, 1), 1}});
    runner.rewind(first, 9);
    run({{first, all.subspan(16, 2), 1},
         {second, all.subspan(25, 1), 1},
         {third, all.subspan(32, 1), 1}});
    return rows;
  };
  const Rows expected = logits(false), own = logits(true);
  if (!has_bf16(folder_of(GetParam()))) {
    EXPECT_EQ(own, expected);
    EXPECT_EQ(logits(true, 1), expected) << "one layer on the GPU";
    return;
  }
  EXPECT_LT(test::distance(own, expected), test::kNear);
  // What each row comes after, in one run.
  const Ids ids = random_ids(40, 5);
  using Parts = std::vector<std::pair<int, int>>;
  const Parts parts[] = {{{0, 9}},           {{20, 21}},         {{0, 14}},
                         {{20, 25}},         {{0, 9}, {30, 32}}, {{0, 15}},
                         {{0, 9}, {16, 18}}, {{20, 26}},         {{0, 9}, {30, 33}}};
  Rows alone;
  for (const Parts& of : parts) {
    Ids own_ids;
    for (const auto& [first, last] : of)
      own_ids.insert(own_ids.end(), ids.begin() + first, ids.begin() + last);
    Model model(folder_of(GetParam()), options_for(true));
    test::Session session(model);
    session.feed(own_ids);
    alone.emplace_back(session.logits().begin(), session.logits().end());
  }
  EXPECT_EQ(own, alone);
}
INSTANTIATE_TEST_SUITE_P(All, GpuRecurrent, ::testing::ValuesIn(kRecurrent), test_name);

// Embeddings, and scores of rankers.
class GpuEncoders : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuEncoders, NumbersHaveTheBitsOfTheCpu) {
  const std::string folder = test::fixture_path("encoders/" + GetParam());
  const std::vector<std::string> texts = {"The thrush sings at night.", "rain",
                                          "Rain is expected by noon, and wind from the west."};
  // Decoders are asked in many words.
  const bool ranks = GetParam().find("rerank") != std::string::npos;
  const size_t count = ranks && GetParam().starts_with("qwen3") ? 1 : texts.size();
  const auto numbers = [&](bool gpu, std::span<const std::string> of) {
    Rows rows;
    if (!ranks) {
      for (const TextEmbedding& one : Embedder(folder, options_for(gpu)).embed(of))
        rows.push_back(one.values);
      return rows;
    }
    Reranker ranker(folder, options_for(gpu), {.raw = true});
    for (const PairScore& one : ranker.score("when does it rain", of)) rows.push_back({one.score});
    return rows;
  };
  const auto all = std::span(texts).first(count);
  const Rows own = numbers(true, all), expected = numbers(false, all);
  if (!has_bf16(folder)) {
    EXPECT_EQ(own, expected);
    return;
  }
  EXPECT_LT(test::distance(own, expected), test::kNear);
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(numbers(true, all.subspan(i, 1)).front(), own[i]) << texts[i];
}
INSTANTIATE_TEST_SUITE_P(All, GpuEncoders, ::testing::ValuesIn(folders_of("encoders")), test_name);

}  // namespace
}  // namespace veery
