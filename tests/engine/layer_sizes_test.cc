// Models whose layers differ in sizes, or read the keys of others: Gemma 4.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "convert/as_gguf.h"
#include "file/folder/row_sources.h"
#include "import/read_config.h"
#include "support/models.h"
#include "support/one_sequence.h"

namespace veery {
namespace {

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

std::vector<float> copy_of(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

// Layers that read the keys of other layers compute only the rows whose logits are requested. The
// logits have the same bits for any split into runs, in any batch, and after forks and rewinds.
TEST(LayerSizes, RowsThatAreLeftOutChangeNoBit) {
  for (const char* name : {"gemma4", "gemma4-published", "gemma4-moe"})
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(name);
      Model model(folder_of(name), {.threads = 2, .exact = exact});
      const Json recorded = test::read_fixture(fmt::format("tiny/{}/reference.json", name));
      const auto ids = recorded["prompts"][0]["ids"].get<std::vector<int32_t>>();
      std::vector<std::vector<float>> rows;
      test::OneSequence all(model);
      all.feed_all(ids, [&](int32_t, auto logits) { rows.push_back(copy_of(logits)); });
      for (const int32_t chunk : {1, 4, 13, 32}) {
        test::OneSequence session(model);
        session.set_chunk(chunk);
        session.feed(ids);
        EXPECT_EQ(copy_of(session.logits()), rows.back()) << chunk;
      }
      for (const int32_t count : {1, 3, 8}) {
        Session runner(model, {.sequences = count + 1});
        std::vector<int32_t> sequences;
        for (int32_t i = 0; i < count; ++i) sequences.push_back(runner.open());
        for (size_t done = 0; done + 9 <= ids.size(); done += 9) {
          std::vector<RunPart> parts;
          // Some parts request no logits, others the logits of several rows.
          for (int32_t i = 0; i < count; ++i)
            parts.push_back({sequences[static_cast<size_t>(i)], std::span(ids).subspan(done, 9),
                             i % 3 == 1 ? 0 : 1 + i % 4});
          runner.run(parts);
          int32_t output = 0;
          for (const RunPart& part : parts)
            for (int32_t i = part.outputs; i > 0; --i)
              EXPECT_EQ(copy_of(runner.logits(output++)), rows[done + 9 - static_cast<size_t>(i)])
                  << count;
        }
        const int32_t fork = runner.fork(sequences[0], 25);
        runner.rewind(sequences[0], 25);
        const RunPart rest[] = {{fork, std::span(ids).subspan(25), 1},
                                {sequences[0], std::span(ids).subspan(25), 2}};
        runner.run(rest);
        EXPECT_EQ(copy_of(runner.logits(0)), rows.back());
        EXPECT_EQ(copy_of(runner.logits(1)), rows[rows.size() - 2]);
        EXPECT_EQ(copy_of(runner.logits(2)), rows.back());
      }
    }
}

// An architecture with two kinds of layers has exactly two sets of sizes.
TEST(LayerSizes, SizesOfLayersAreThoseOfTheirKind) {
  struct Row {
    const char* key;
    MetaValue value;
    const char* named;
  };
  const Row rows[] = {
      {"attention.head_count_kv", std::vector<int64_t>{2, 2, 2, 1, 2, 2}, "is 2 and 1 in layers"},
      {"attention.head_count_kv", std::vector<int64_t>{2, 1}, "has 2 entries"},
      {"attention.head_count_kv", std::vector<int64_t>{2, 3, 2, 2, 3, 3}, "is 3, expected a div"},
      {"feed_forward_length", std::vector<int64_t>{18, 18, 20, 36, 36, 36}, "is 18 and 20"},
      {"feed_forward_length", std::vector<int64_t>{18, 18, 18, 0, 0, 0}, "is 0, expected 1"},
      {"attention.shared_kv_layers", int64_t{6}, "is 6, expected less than gemma4.block_count, 6"},
      {"attention.shared_kv_layers", int64_t{5}, "layer 1 is one of 5 layers that share keys"},
      {"attention.value_length_swa", int64_t{7}, "value_length_swa is 7, expected 6"},
      {"rope.dimension_count_swa", int64_t{4}, "dimension_count_swa is 4, expected 6"},
  };
  for (const Row& row : rows) {
    ModelFile file = open_as_gguf(folder_of("gemma4"));
    file.metadata.set(std::string("gemma4.") + row.key, row.value);
    try {
      read_config(file);
      ADD_FAILURE() << row.named;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.named), std::string::npos) << error.what();
    }
  }
}

// In GGUF files the embedding is cut to the number of tokens, but the per-layer embeddings are not.
TEST(LayerSizes, TheTableOfLayersMayHaveMoreRowsThanTheEmbedding) {
  ModelFile file = open_as_gguf(folder_of("gemma4"));
  const auto table =
      std::ranges::find(file.tensors, "per_layer_token_embd.weight", &TensorView::name);
  const TensorView whole = *table;
  table->shape[0] += 5;
  EXPECT_EQ(read_config(file).input.layer_input_rows, whole.shape[0] + 5);
  *table = slice_rows(whole, whole.name, 0, whole.shape[0] - 1);
  EXPECT_THROW(read_config(file), Error);
}

}  // namespace
}  // namespace veery
