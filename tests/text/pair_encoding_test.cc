// Single texts and pairs: ids, segments and truncation compared with Hugging Face's tokenizers
// (fixture by tools/oracle/pair_encodings.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "support/temporary_folder.h"
#include "text/format/tokenizer_folder.h"
#include "text/format/tokenizer_json.h"
#include "text/tokenizer.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

Json fixture() {
  const std::string path = std::string(VEERY_SOURCE_DIR) + "/tests/fixtures/tokenizers/pairs.json";
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return parse_json(text.str(), "pairs.json");
}

std::unique_ptr<Tokenizer> make(const std::string& json) {
  Pipeline pipeline = read_tokenizer_json(json, "test.json");
  const Metadata roles = roles_of(pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

TruncationStrategy strategy_of(const std::string& name) {
  if (name == "only_first") return TruncationStrategy::kOnlyFirst;
  if (name == "only_second") return TruncationStrategy::kOnlySecond;
  return TruncationStrategy::kLongestFirst;
}

// Checks a recorded case [first, second, special, most, strategy, ids, types] of one tokenizer.
// `bound`: the max_length of the file's `truncation`, which the library applies but Tokenizer
// leaves to its caller; 0: none.
void expect_case(const Tokenizer& tokenizer, const Json& texts, const Json& recorded,
                 size_t bound) {
  EncodeOptions options{.add_special = recorded[2].get<bool>(),
                        .max_tokens = recorded[3].get<size_t>(),
                        .strategy = strategy_of(recorded[4].get<std::string>())};
  if (options.max_tokens == 0) options.max_tokens = bound;
  const std::string first = texts[recorded[0].get<size_t>()].get<std::string>();
  const std::string second =
      recorded[1].is_null() ? "" : texts[recorded[1].get<size_t>()].get<std::string>();
  const auto encode = [&] {
    return recorded[1].is_null() ? tokenizer.encode_text(first, options)
                                 : tokenizer.encode_pair(first, second, options);
  };
  if (recorded[5].is_null()) {
    EXPECT_THROW(encode(), Error);
    return;
  }
  const Encoding made = encode();
  EXPECT_EQ(made.ids, recorded[5].get<Ids>());
  EXPECT_EQ(made.types, recorded[6].get<Ids>());
  if (options.max_tokens == 0) return;
  options.max_tokens = 1 << 20;
  EXPECT_EQ(made.ids.size() + made.cut, encode().ids.size());
}

TEST(PairEncoding, MatchesRecordedIdsAndSegments) {
  const Json all = fixture();
  EXPECT_GT(all["tokenizers"].size(), 10U);
  for (const Json& item : all["tokenizers"]) {
    const auto tokenizer = make(dump_json(item["tokenizer"]));
    const Json* truncation = item["tokenizer"].member("truncation");
    const bool bounded = truncation != nullptr && truncation->is_object();
    const size_t bound = bounded ? (*truncation)["max_length"].get<size_t>() : 0;
    EXPECT_GT(item["cases"].size(), 100U);
    for (const Json& recorded : item["cases"]) {
      SCOPED_TRACE(item["name"].get<std::string>() + " " + dump_json(recorded));
      expect_case(*tokenizer, all["texts"], recorded, bound);
    }
  }
}

std::string message_of(const std::function<void()>& act, ErrorKind kind) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

const std::string kWords =
    R"({"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"[CLS]":3,"[SEP]":4}},
        "pre_tokenizer":{"type":"Whitespace"},)";
const std::string kBert =
    kWords + R"("post_processor":{"type":"BertProcessing","cls":["[CLS]",3],"sep":["[SEP]",4]}})";

TEST(PairEncoding, TruncationCountsTokensAndKeepsSpecialTokens) {
  const auto tokenizer = make(kBert);
  EncodeOptions options{.max_tokens = 7};
  Encoding made = tokenizer->encode_pair("a a a a a", "b b", options);
  EXPECT_EQ(made.ids, (Ids{3, 1, 1, 4, 2, 2, 4}));
  EXPECT_EQ(made.types, (Ids{0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(made.cut, 3U);
  options.max_tokens = 4;
  made = tokenizer->encode_text("a a b", options);
  EXPECT_EQ(made.ids, (Ids{3, 1, 1, 4}));
  EXPECT_EQ(made.cut, 1U);
  EXPECT_EQ(tokenizer->encode("a a b", options), made.ids);
}

TEST(PairEncoding, RejectsAMaximumWithoutRoom) {
  const auto tokenizer = make(kBert);
  const std::string none =
      message_of([&] { tokenizer->encode_pair("a", "b", {.max_tokens = 2}); }, ErrorKind::kInput);
  EXPECT_EQ(none, "the maximum is 2 tokens, but 3 special tokens are required");
  const std::string second = message_of(
      [&] {
        tokenizer->encode_pair("a a a a", "b b",
                               {.max_tokens = 7, .strategy = TruncationStrategy::kOnlySecond});
      },
      ErrorKind::kInput);
  EXPECT_EQ(
      second,
      "the first text has 4 tokens, which leaves no room for the second text: the maximum is 7 "
      "tokens, 3 of them special");
}

TEST(PairEncoding, LostBytesAreCountedThroughBothTexts) {
  const auto tokenizer = make(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  LostBytes lost;
  EncodeOptions options;
  options.lost = &lost;
  tokenizer->encode_pair("ab", "ba?", options);
  EXPECT_EQ(lost.count, 1U);
  EXPECT_EQ(lost.first, 4U);
}

TEST(PairEncoding, ATemplateWithoutPairsFailsOnlyForPairs) {
  const auto tokenizer = make(kWords + R"("post_processor":{"type":"TemplateProcessing",
      "single":[{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{}}})");
  EXPECT_EQ(tokenizer->encode("a b"), (Ids{1, 2}));
  message_of([&] { tokenizer->encode_pair("a", "b"); }, ErrorKind::kUnsupported);
}

TEST(PairEncoding, ErrorsNameTheCauseInHostileTemplates) {
  const auto with = [](const std::string& pair, const std::string& ids = "[1]") {
    return kWords + R"("post_processor":{"type":"TemplateProcessing",
        "single":[{"Sequence":{"id":"A","type_id":0}}],"pair":)" +
           pair + R"(,"special_tokens":{"x":{"id":"x","ids":)" + ids + R"(,"tokens":["x"]}}}})";
  };
  const std::string text = R"({"Sequence":{"id":"A","type_id":0}})";
  const struct {
    std::string json;
    ErrorKind kind;
    std::string part;
  } kCases[] = {
      {with(R"([{"Sequence":{"id":"C"}}])"), ErrorKind::kFormat, "expected A or B"},
      {with("[" + text + "," + text + "]"), ErrorKind::kUnsupported, "twice"},
      {with(R"([{"Sequence":{"id":"A","type_id":-1}}])"), ErrorKind::kFormat, "type_id"},
      {with(R"([{"Sequence":{"id":"A","type_id":1e9}}])"), ErrorKind::kFormat, "type_id"},
      {with(R"([{"Sequence":{"id":"A","type_id":99999999999}}])"), ErrorKind::kFormat, "65535"},
      {with("7"), ErrorKind::kFormat, "an array"},
      {with("[7]"), ErrorKind::kFormat, "SpecialToken"},
      {with(R"([{"SpecialToken":{"id":"y","type_id":0}}])"), ErrorKind::kFormat, "y"},
      {with(R"([{"SpecialToken":{"id":"x","type_id":0}}])", "[5]"), ErrorKind::kFormat, "token 5"},
      {kWords + R"("truncation":{"max_length":3,"strategy":"Middle"}})", ErrorKind::kFormat,
       "OnlySecond"},
  };
  for (const auto& [json, kind, part] : kCases) {
    const std::string message = message_of([&] { make(json); }, kind);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(PairEncoding, TruncationSideComesFromTheFolder) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", kBert);
  const auto cut = [&](const std::string& config) {
    folder.write("tokenizer_config.json", config);
    return load_tokenizer_folder(folder.path())->encode("a a b", {.max_tokens = 4});
  };
  EXPECT_EQ(cut("{}"), (Ids{3, 1, 1, 4}));
  EXPECT_EQ(cut(R"({"truncation_side":"left"})"), (Ids{3, 1, 2, 4}));
  EXPECT_THROW(cut(R"({"truncation_side":"up"})"), Error);
}

// Returns the tokenizer of a GGUF file with the tokens <s> </s> a b.
std::unique_ptr<Tokenizer> of_gguf(const std::string& model, const Metadata& more = {}) {
  ModelFile file;
  file.metadata = more;
  Metadata& metadata = file.metadata;
  metadata.set("tokenizer.ggml.model", model);
  metadata.set_texts("tokenizer.ggml.tokens", {"<s>", "</s>", "<unk>", "▁a", "▁b", "a", "b", "▁"});
  metadata.set("tokenizer.ggml.token_type", std::vector<int64_t>{3, 3, 2, 1, 1, 1, 1, 1});
  metadata.set("tokenizer.ggml.scores", std::vector<double>{0, 0, 0, -1, -1, -2, -2, -3});
  metadata.set_texts("tokenizer.ggml.merges", {});
  metadata.set("tokenizer.ggml.bos_token_id", int64_t{0});
  metadata.set("tokenizer.ggml.eos_token_id", int64_t{1});
  metadata.set("tokenizer.ggml.unknown_token_id", int64_t{2});
  return make_tokenizer(file);
}

TEST(PairEncoding, GgufTokenizersSeparatePairsLikeTheirModels) {
  EXPECT_EQ(of_gguf("bert")->encode_pair("a", "b").ids, (Ids{0, 3, 1, 4, 1}));
  EXPECT_EQ(of_gguf("bert")->encode_pair("a", "b").types, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(of_gguf("bert")->encode_text("a").types, (Ids{0, 0, 0}));
  // XLM-R, with and without metadata for the separator; T5, which has no BOS.
  EXPECT_EQ(of_gguf("t5")->encode_pair("a", "b").ids, (Ids{0, 3, 1, 1, 4, 1}));
  EXPECT_EQ(of_gguf("t5")->encode_pair("a", "b").types, (Ids{0, 0, 0, 0, 0, 0}));
  Metadata words;
  words.set("tokenizer.ggml.add_sep_token", false);
  EXPECT_EQ(of_gguf("t5", words)->encode_pair("a", "b").ids, (Ids{0, 3, 1, 4, 1}));
  words = {};
  words.set("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(of_gguf("t5", words)->encode_pair("a", "b").ids, (Ids{3, 1, 4, 1}));
}

TEST(PairEncoding, OtherGgufTokenizersAddSpecialTokensAroundEachText) {
  Metadata words;
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("a", "b").ids, (Ids{5, 6}));
  words.set("tokenizer.ggml.add_bos_token", true);
  words.set("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("a", "b").ids, (Ids{0, 5, 1, 6, 1}));
  words.set("tokenizer.ggml.add_sep_token", true);
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("a", "b").ids, (Ids{0, 5, 1, 1, 6, 1}));
  words.set("tokenizer.ggml.seperator_token_id", int64_t{2});
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("a", "b").ids, (Ids{0, 5, 1, 2, 6, 1}));
  EXPECT_EQ(of_gguf("gpt2", words)->encode("a"), (Ids{0, 5, 1}));
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("ab", "b", {.max_tokens = 6}).cut, 1U);
  words.set("tokenizer.ggml.seperator_token_id", int64_t{99});
  EXPECT_EQ(of_gguf("gpt2", words)->encode_pair("a", "b").ids, (Ids{0, 5, 1, 6, 1}));
}

}  // namespace
}  // namespace veery
