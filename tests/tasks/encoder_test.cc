// Encoders, embeddings and scores of small random checkpoints against those of transformers.
// tools/oracle/make_encoders.py makes the folders; $VEERY_ENCODERS and --gtest_filter='All/*' test
// folders of other seeds and sizes.
#include "tasks/encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "convert/as_gguf.h"
#include "convert/quantize.h"
#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "support/models.h"
#include "support/tiny_model.h"
#include "tasks/embed.h"

namespace veery {
namespace {

constexpr const char* kEncoders[] = {"bert-mean",       "xlmr-cls",       "modernbert-mean",
                                     "modernbert-bias", "nomicbert-mean", "embeddinggemma",
                                     "qwen3-embedding", "jinabert-mean",  "embeddinggemma2"};
constexpr const char* kRankers[] = {"bert-rerank", "xlmr-rerank", "modernbert-rerank",
                                    "qwen3-reranker", "qwen3-reranker-label"};
constexpr double kNear = 2e-4;

std::string folder_of(const std::string& name) {
  const char* others = std::getenv("VEERY_ENCODERS");
  return others == nullptr ? test::fixture_path("encoders/" + name) : others + ("/" + name);
}

Json reference_of(const std::string& name) {
  const std::string path = folder_of(name) + "/reference.json";
  return parse_json(test::read_text(path), path);
}

Json cases_of(const std::string& name) { return reference_of(name)["cases"]; }

std::vector<std::string> texts_of(const Json& cases) {
  std::vector<std::string> texts;
  for (const Json& one : cases) texts.push_back(one["text"].get<std::string>());
  return texts;
}

LoadOptions exact(int threads = 1) { return {.threads = threads, .exact = true}; }

double relative_error(std::span<const float> got, const Json& expected) {
  const auto values = expected.get<std::vector<double>>();
  if (values.size() != got.size()) return 1;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - values[i]));
    largest = std::max(largest, std::abs(values[i]));
  }
  return worst / largest;
}

// Returns the last hidden states.
Entry rows_entry(ModelFile& file, const TransformerConfig& config) {
  return embed_entry(file, config, {.pooling = std::nullopt, .dense = {}, .normalize = false});
}

Model rows_model(const std::string& name) {
  LoadOptions options = exact();
  options.entry = rows_entry;
  return Model(folder_of(name), options);
}

template <typename Action>
void expect_error(ErrorKind kind, const std::string& part, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "nothing thrown, expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

class TinyEncoder : public ::testing::TestWithParam<const char*> {};
class TinyRanker : public ::testing::TestWithParam<const char*> {};

void check_rows(const std::string& name) {
  Model model = rows_model(name);
  Encoder encoder(model, "embedding");
  for (const Json& one : cases_of(name)) {
    const auto ids = one["input_ids"].get<std::vector<int32_t>>();
    std::vector<int32_t> types;
    if (one.contains("token_type_ids")) types = one["token_type_ids"].get<std::vector<int32_t>>();
    const TokenSequence sequence{ids, types};
    encoder.run({&sequence, 1});
    for (const auto& [at, ends] : one["rows"].items()) {
      const std::span<const float> row = encoder.row(std::stoll(std::string(at)));
      EXPECT_LT(relative_error(row.first(8), ends[0]), kNear) << at << " of " << ids.size();
      EXPECT_LT(relative_error(row.last(8), ends[1]), kNear) << at << " of " << ids.size();
    }
  }
}

TEST_P(TinyEncoder, RowsMatchTransformers) { check_rows(GetParam()); }
TEST_P(TinyRanker, RowsMatchTransformers) { check_rows(GetParam()); }

TEST_P(TinyEncoder, EmbeddingsAndTokensMatchTransformers) {
  const Json cases = cases_of(GetParam());
  Embedder embedder(folder_of(GetParam()), exact());
  const auto all = embedder.embed(texts_of(cases));
  ASSERT_EQ(all.size(), cases.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].tokens, std::ssize(cases[i]["input_ids"])) << i;
    EXPECT_EQ(all[i].cut, 0) << i;
    EXPECT_EQ(all[i].rows, 1) << i;
    EXPECT_EQ(std::ssize(all[i].values), embedder.columns());
    EXPECT_LT(relative_error(all[i].values, cases[i]["embedding"]), kNear) << i;
  }
}

TEST_P(TinyEncoder, BitsDoNotDependOnBatchOrThreads) {
  const auto texts = texts_of(cases_of(GetParam()));
  for (const bool is_exact : {false, true}) {
    Embedder first(folder_of(GetParam()), {.threads = 1, .exact = is_exact});
    const auto expected = first.embed(texts);
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(first.embed({&texts[i], 1})[0].values, expected[i].values) << i;
    for (const int threads : {2, 3}) {
      Embedder other(folder_of(GetParam()), {.threads = threads, .exact = is_exact});
      const auto got = other.embed(texts);
      for (size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(got[i].values, expected[i].values) << threads << " threads, text " << i;
    }
  }
}

TEST_P(TinyRanker, ScoresMatchTransformersAloneAndInABatch) {
  const Json cases = cases_of(GetParam());
  Reranker reranker(folder_of(GetParam()), exact());
  Reranker raw(folder_of(GetParam()), exact(2), {.raw = true});
  for (const Json& one : cases) {
    const auto query = one["query"].get<std::string>();
    const std::vector<std::string> documents{one["document"].get<std::string>(), "rain", ""};
    const PairScore score = reranker.score(query, documents)[0];
    EXPECT_EQ(score.tokens, std::ssize(one["input_ids"])) << query;
    EXPECT_NEAR(score.score, one["score"].get<double>(), kNear) << query;
    const float logit = raw.score(query, documents)[0].score;
    EXPECT_NEAR(logit, one["logit"].get<double>(), kNear * 4) << query;
    EXPECT_EQ(raw.score(query, std::span(documents).first(1))[0].score, logit) << query;
  }
}

// Writes the folder as GGUF, with tensors and keys of llama.cpp.
std::string as_gguf(const std::string& name) {
  const std::string path = ::testing::TempDir() + name + ".gguf";
  const ModelFile file = open_as_gguf(folder_of(name));
  ThreadPool pool(1);
  write_quantized(file, keep_types(file), file.metadata, path, pool, {});
  return path;
}

TEST_P(TinyEncoder, GgufGivesTheSameBits) {
  if (std::string_view(GetParam()) == "embeddinggemma2")
    return expect_error(ErrorKind::kUnsupported, "embedding-gemma2",
                        [] { std::filesystem::remove(as_gguf("embeddinggemma2")); });
  const auto texts = texts_of(cases_of(GetParam()));
  const std::string path = as_gguf(GetParam());
  for (const bool is_exact : {false, true}) {
    const LoadOptions load{.threads = 1, .exact = is_exact};
    const auto expected = Embedder(folder_of(GetParam()), load).embed(texts);
    const auto got = Embedder(path, load).embed(texts);
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(got[i].values, expected[i].values) << i;
  }
  std::filesystem::remove(path);
}

TEST_P(TinyRanker, GgufGivesTheSameBits) {
  const Json cases = cases_of(GetParam());
  const std::string path = as_gguf(GetParam());
  Reranker folder(folder_of(GetParam()), exact(), {.raw = true});
  Reranker gguf(path, exact(), {.raw = true});
  for (const Json& one : cases) {
    const std::vector<std::string> documents{one["document"].get<std::string>()};
    const auto query = one["query"].get<std::string>();
    EXPECT_EQ(gguf.score(query, documents)[0].score, folder.score(query, documents)[0].score);
  }
  std::filesystem::remove(path);
}

std::string name_of(const ::testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TinyEncoder, ::testing::ValuesIn(kEncoders), name_of);
INSTANTIATE_TEST_SUITE_P(All, TinyRanker, ::testing::ValuesIn(kRankers), name_of);

TEST(Encoder, RefusesInvalidInput) {
  Model model = rows_model("bert-mean");
  Encoder encoder(model, "embedding");
  const auto run = [&](const std::vector<int32_t>& ids, const std::vector<int32_t>& types) {
    const TokenSequence sequence{ids, types};
    encoder.run({&sequence, 1});
  };
  expect_error(ErrorKind::kInput, "without tokens", [&] { run({}, {}); });
  expect_error(ErrorKind::kInput, "id 160", [&] { run({1, 160, 2}, {}); });
  expect_error(ErrorKind::kInput, "id -1", [&] { run({1, -1, 2}, {}); });
  expect_error(ErrorKind::kLimit, "129 tokens, expected at most 128",
               [&] { run(std::vector<int32_t>(129, 5), {}); });
  expect_error(ErrorKind::kInput, "found token type 2", [&] { run({1, 5, 2}, {0, 2, 0}); });
  expect_error(ErrorKind::kInput, "found token type -1", [&] { run({1, 5, 2}, {0, -1, 0}); });
  expect_error(ErrorKind::kInput, "3 tokens and 4 token types", [&] {
    run({1, 5, 2}, {0, 0, 0, 0});
  });
  run(std::vector<int32_t>(128, 5), {});
  EXPECT_EQ(encoder.row(127).size(), 48U);
  encoder.run({});
}

TEST(Embedder, DimensionsAreTheFirstColumnsScaledToLengthOne) {
  const std::vector<std::string> texts{"The thrush sings at night."};
  Embedder whole(folder_of("bert-mean"), exact(), {.normalize = false});
  Embedder part(folder_of("bert-mean"), exact(), {.dimensions = 16});
  const auto all = whole.embed(texts)[0].values;
  const auto some = part.embed(texts)[0].values;
  ASSERT_EQ(part.columns(), 16);
  ASSERT_EQ(some.size(), 16U);
  double squares = 0;
  for (size_t i = 0; i < 16; ++i) squares += double(all[i]) * all[i];
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(some[i], all[i] / std::sqrt(squares), 1e-6);
  expect_error(ErrorKind::kInput, "49",
               [] { Embedder(folder_of("bert-mean"), exact(), {.dimensions = 49}); });
}

// Computes each pooling from the rows of `none`.
TEST(Embedder, PoolingsFollowTheirDefinitions) {
  const std::vector<std::string> texts{"The thrush sings", "rain"};
  const auto pooled = [&](PoolingKind kind) {
    return Embedder(folder_of("bert-mean"), exact(), {.pooling = kind, .normalize = false})
        .embed(texts);
  };
  const auto rows = pooled(PoolingKind::kNone);
  for (const char* given : {"cls", "last", "mean", "max", "mean-sqrt-len", "weighted-mean"}) {
    const auto all = pooled(pooling_from_name(given));
    for (size_t t = 0; t < texts.size(); ++t) {
      const int64_t count = rows[t].rows, width = 48;
      ASSERT_EQ(count, rows[t].tokens);
      for (int64_t c = 0; c < width; ++c) {
        const auto at = [&](int64_t r) { return double(rows[t].values[size_t(r * width + c)]); };
        double sum = 0, weighted = 0, weights = 0, most = at(0);
        for (int64_t r = 0; r < count; ++r) {
          sum += at(r), most = std::max(most, at(r));
          weighted += double(r + 1) * at(r), weights += double(r + 1);
        }
        const std::map<std::string, double> expected{
            {"cls", at(0)},
            {"last", at(count - 1)},
            {"mean", sum / double(count)},
            {"max", most},
            {"mean-sqrt-len", sum / std::sqrt(double(count))},
            {"weighted-mean", weighted / weights}};
        EXPECT_NEAR(all[t].values[size_t(c)], expected.at(given), 1e-5) << given << ' ' << c;
      }
    }
  }
}

TEST(Embedder, LateInteractionHasARowOfLengthOneForEachToken) {
  const std::vector<std::string> texts{"The thrush sings", "", "rain by noon"};
  Embedder embedder(folder_of("modernbert-mean"), exact(), {.pooling = PoolingKind::kNone});
  for (const TextEmbedding& one : embedder.embed(texts)) {
    EXPECT_EQ(one.rows, one.tokens);
    ASSERT_EQ(std::ssize(one.values), one.rows * embedder.columns());
    for (int64_t r = 0; r < one.rows; ++r) {
      double squares = 0;
      for (int64_t c = 0; c < embedder.columns(); ++c)
        squares += std::pow(double(one.values[size_t(r * embedder.columns() + c)]), 2);
      EXPECT_NEAR(squares, 1, 1e-5);
    }
  }
}

// Sums of the largest cosines (ColBERT) over the vectors of tokens.
TEST(Embedder, LateInteractionScoresMatchNumpy) {
  for (const std::string name : {"bert-mean", "modernbert-mean"}) {
    const Json reference = reference_of(name);
    Embedder embedder(folder_of(name), exact(), {.pooling = PoolingKind::kNone});
    const auto all = embedder.embed(texts_of(reference["cases"]));
    const auto columns = static_cast<size_t>(embedder.columns());
    const auto row = [&](const TextEmbedding& one, int64_t r) {
      return std::span(one.values).subspan(static_cast<size_t>(r) * columns, columns);
    };
    for (size_t d = 0; d < all.size(); ++d) {
      double score = 0;
      for (int64_t q = 0; q < all[1].rows; ++q) {
        double most = -1;
        for (int64_t r = 0; r < all[d].rows; ++r) {
          double cosine = 0;
          for (size_t c = 0; c < columns; ++c)
            cosine += double{row(all[1], q)[c]} * row(all[d], r)[c];
          most = std::max(most, cosine);
        }
        score += most;
      }
      EXPECT_NEAR(score, reference["late_interaction"][d].get<double>(), 1e-3) << name << ' ' << d;
    }
  }
}

TEST(Embedder, LongTextsAreCutAndCounted) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "sun ";
  Embedder whole(folder_of("bert-mean"), exact());
  Embedder short_one(folder_of("bert-mean"), exact(), {.max_tokens = 10});
  const TextEmbedding all = whole.embed({&text, 1})[0];
  EXPECT_EQ(all.tokens, 128);
  EXPECT_EQ(all.cut, 174);
  const TextEmbedding few = short_one.embed({&text, 1})[0];
  EXPECT_EQ(few.tokens, 10);
  EXPECT_EQ(few.cut, 292);
  const std::string eight = "sun sun sun sun sun sun sun sun";
  EXPECT_EQ(whole.embed({&eight, 1})[0].values, few.values);
  expect_error(ErrorKind::kInput, "129",
               [] { Embedder(folder_of("bert-mean"), exact(), {.max_tokens = 129}); });
}

TEST(Embedder, UnknownPromptsAreRefused) {
  expect_error(ErrorKind::kInput, "unknown prompt 'query'",
               [] { Embedder(folder_of("bert-mean"), exact(), {.prompt_name = "query"}); });
}

TEST(Reranker, ModelsWithoutAHeadAreRefused) {
  expect_error(ErrorKind::kUnsupported, "cls.output.weight",
               [] { Reranker(folder_of("bert-mean"), exact()); });
  const test::TinyModel llama;
  expect_error(ErrorKind::kUnsupported, "cls.output.weight",
               [&] { Reranker(llama.path(), exact()); });
}

// The files that make a decoder a reranker, and the columns of its head.
TEST(Reranker, DecodersHaveOnePromptFormat) {
  const auto config_of = [](const std::string& name) {
    ModelFile file = open_model(folder_of(name));
    const TransformerConfig config = read_config(file);
    return std::pair(makes_scores(file, config), read_sentence_setup(file, config));
  };
  EXPECT_FALSE(config_of("qwen3-reranker").first);
  EXPECT_TRUE(config_of("qwen3-reranker").second.score.logits);
  EXPECT_TRUE(config_of("qwen3-reranker-label").first);
  EXPECT_FALSE(config_of("qwen3-reranker-label").second.score.logits);
  expect_error(ErrorKind::kUnsupported, "cls.output.weight",
               [] { Reranker(folder_of("qwen3-embedding"), exact()); });
  const std::string query = "rain";
  const std::vector<std::string> documents{"sun", "the <|im_end|> river"};
  Reranker usual(folder_of("qwen3-reranker"), exact(), {.raw = true});
  Reranker told(folder_of("qwen3-reranker"), exact(), {.raw = true, .instruction = "x"});
  const auto scores = usual.score(query, documents);
  EXPECT_NE(told.score(query, documents)[0].score, scores[0].score);
  EXPECT_LT(told.score(query, documents)[0].tokens, scores[0].tokens);
  EXPECT_EQ(usual.score(query, std::span(documents).last(1))[0].score, scores[1].score);
  // "<|im_end|>" in a document is ten characters, not the end of the turn.
  const std::vector<std::string> plain{"the  river"};
  EXPECT_GE(scores[1].tokens, usual.score(query, plain)[0].tokens + 8);
  expect_error(ErrorKind::kInput, "expected more than the", [] {
    Reranker(folder_of("qwen3-reranker"), exact(), {.max_tokens = 20})
        .score("x", std::vector<std::string>{"y"});
  });
  expect_error(ErrorKind::kInput, "accepts no instruction",
               [] { Reranker(folder_of("bert-rerank"), exact(), {.instruction = "x"}); });
}

TEST(Encoder, PredictsNoNextToken) {
  expect_error(ErrorKind::kUnsupported, "is an encoder",
               [] { Model(folder_of("bert-mean"), exact()); });
}

}  // namespace
}  // namespace veery
