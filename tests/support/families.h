// families.h: results of small checkpoints of all families: logits of prefill and decode steps, of
// several sequences with forks and rewinds, embeddings of encoders and scores of rankers.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/session.h"
#include "file/folder/folder.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "tasks/embed.h"

namespace veery::test {

using Rows = std::vector<std::vector<float>>;

/// Checkpoints with recurrent state.
inline const std::string kRecurrent[] = {"qwen35", "qwen3next", "mamba2",         "lfm2",
                                         "xlstm",  "xlstm-lm",  "kimi-linear",    "bamba",
                                         "jamba",  "rwkv7",     "nemotron-h-moe", "falcon-h1"};
inline bool is_recurrent(const std::string& name) {
  return std::ranges::find(kRecurrent, name) != std::end(kRecurrent);
}

/// Returns the names of the checkpoints in a fixture folder, sorted.
inline std::vector<std::string> folders_of(const char* kind) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixture_path(kind)))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}
inline std::string test_name(const ::testing::TestParamInfo<std::string>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
inline std::string folder_of(const std::string& name) { return fixture_path("tiny/" + name); }

/// Returns ids that are valid in all of their vocabularies.
inline std::vector<int32_t> random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

/// Runs a prefill and decode steps, or decode steps only; returns the logits of each token row.
inline Rows logits_of(const std::string& folder, const LoadOptions& options,
                      const std::vector<int32_t>& ids) {
  Model model(folder, options);
  OneSequence session(model);
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

/// Runs several sequences with forks, snapshots and rewinds on 40 ids; returns the logits of the
/// last row of each part.
inline Rows logits_of_sequences(const std::string& folder, const LoadOptions& options,
                                const std::vector<int32_t>& ids) {
  Model model(folder, options);
  Session runner(model, {.sequences = 3, .snapshots = 3, .snapshot_every = 6});
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
}

/// A copy of a fixture folder with a context of several KV cache pages. The weights do not depend
/// on the context length, so results at the additional positions are well defined.
class LongModel {
 public:
  static constexpr int32_t kContext = 1024;

  explicit LongModel(const std::string& name) {
    std::filesystem::copy(fixture_path(name), folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    Json json = read_json_file(folder_.file("config.json"));
    Json& text = json.contains("text_config") ? json["text_config"] : json;
    if (text.contains("max_position_embeddings")) text["max_position_embeddings"] = kContext;
    folder_.write("config.json", dump_json(json));
  }
  std::string path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::string> some_texts() {
  return {"The thrush sings at night.", "rain",
          "Rain is expected by noon, and wind from the west."};
}
/// Returns the embeddings of an encoder, or the scores of a ranker, depending on its name.
inline Rows numbers_of_texts(const std::string& name, const LoadOptions& options,
                             std::span<const std::string> texts) {
  const std::string folder = fixture_path("encoders/" + name);
  Rows rows;
  if (name.find("rerank") == std::string::npos) {
    for (const TextEmbedding& one : Embedder(folder, options).embed(texts))
      rows.push_back(one.values);
    return rows;
  }
  Reranker ranker(folder, options, {.raw = true});
  for (const PairScore& one : ranker.score("when does it rain", texts)) rows.push_back({one.score});
  return rows;
}
/// Returns how many of some_texts() to use: decoder-based rankers have long prompts.
inline size_t texts_for(const std::string& name) {
  const bool ranks = name.find("rerank") != std::string::npos;
  return ranks && name.starts_with("qwen3") ? 1 : some_texts().size();
}

}  // namespace veery::test
