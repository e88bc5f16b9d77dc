// Every model family on the GPU emulator: the bits of the CPU; with bf16 weights close to the CPU,
// and the same bits for any split of a sequence into runs.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "support/families.h"
#include "support/gpu_machine.h"
#include "support/near_rows.h"
#include "support/sanitized.h"

namespace veery {
namespace {

// Returns whether a folder has a bf16 matrix other than the scales of quantised weights.
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

using test::folder_of;
using test::folders_of;
using test::is_recurrent;
using test::logits_of;
using test::random_ids;
using test::Rows;
using test::test_name;
using Ids = std::vector<int32_t>;

LoadOptions options_for(bool gpu) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = 64;
  if (gpu) options.backends = {gpu::make_backend(gpu::make_emulator())};
  return options;
}

class GpuFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuFamilies, LogitsHaveTheBitsOfTheCpu) {
  if (test::kSanitized && !is_recurrent(GetParam())) return;
  const std::string folder = folder_of(GetParam());
  // Sparse models: more tokens than positions are chosen.
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

INSTANTIATE_TEST_SUITE_P(All, GpuFamilies, ::testing::ValuesIn(folders_of("tiny")), test_name);

// The last layers on the GPU; the others and their KV caches on the CPU.
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
  // Models whose layers share keys and values.
  const std::string name = GetParam();
  const bool shares = name == "gemma4" || name == "gemma4-published";
  EXPECT_EQ(refused > 0, shares) << refused << " of " << layers;
}
INSTANTIATE_TEST_SUITE_P(All, GpuLayers, ::testing::ValuesIn(folders_of("tiny")), test_name);

// Recurrent states through batched runs, forks, snapshots and rewinding.
class GpuRecurrent : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuRecurrent, RecurrentStateFollowsItsSequence) {
  const auto logits = [&](bool gpu, std::optional<int32_t> layers = {}) {
    LoadOptions options = options_for(gpu);
    options.backend_layers = layers;
    return test::logits_of_sequences(folder_of(GetParam()), options, random_ids(40, 5));
  };
  const Rows expected = logits(false), own = logits(true);
  if (!has_bf16(folder_of(GetParam()))) {
    EXPECT_EQ(own, expected);
    EXPECT_EQ(logits(true, 1), expected) << "one layer on the GPU";
    return;
  }
  EXPECT_LT(test::distance(own, expected), test::kNear);
  // The history of each row of a run.
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
    test::OneSequence session(model);
    session.feed(own_ids);
    alone.emplace_back(session.logits().begin(), session.logits().end());
  }
  EXPECT_EQ(own, alone);
}
INSTANTIATE_TEST_SUITE_P(All, GpuRecurrent, ::testing::ValuesIn(test::kRecurrent), test_name);

// Embeddings, and scores of rerankers.
class GpuEncoders : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuEncoders, NumbersHaveTheBitsOfTheCpu) {
  const std::string folder = test::fixture_path("encoders/" + GetParam());
  const std::vector<std::string> texts = test::some_texts();
  const size_t count = test::texts_for(GetParam());
  const auto numbers = [&](bool gpu, std::span<const std::string> of) {
    return test::numbers_of_texts(GetParam(), options_for(gpu), of);
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

// The last layers on the GPU; the embedding and the other layers on the CPU.
TEST_P(GpuEncoders, NumbersDoNotDependOnWhereLayersAre) {
  if (test::kSanitized && GetParam() != "bert-mean") return;
  const std::string folder = test::fixture_path("encoders/" + GetParam());
  const std::vector<std::string> texts = test::some_texts();
  const auto of = std::span(texts).first(std::min<size_t>(test::texts_for(GetParam()), 3));
  const Rows expected = test::numbers_of_texts(GetParam(), options_for(false), of);
  LoadOptions options = options_for(true);
  options.entry = text_entry;
  const int32_t layers = Model(folder, options).config().layers;
  ASSERT_GT(layers, 1);
  for (int32_t n = 0; n <= layers; ++n) {
    options.backend_layers = n;
    const Rows own = test::numbers_of_texts(GetParam(), options, of);
    if (has_bf16(folder) && n > 0)
      EXPECT_LT(test::distance(own, expected), test::kNear) << n;
    else
      EXPECT_EQ(own, expected) << n;
  }
}
INSTANTIATE_TEST_SUITE_P(All, GpuEncoders, ::testing::ValuesIn(folders_of("encoders")), test_name);

}  // namespace
}  // namespace veery
