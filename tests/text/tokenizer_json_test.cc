// tokenizer.json compared with the tokenizers library (fixtures by
// tools/oracle/component_tokenizers.py and record_tokenizers.py).
#include "text/format/tokenizer_json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/format/gguf_tokenizer.h"
#include "text/format/tokenizer_folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Json fixture(const std::string& name) {
  const fs::path path = fs::path(VEERY_SOURCE_DIR) / "tests/fixtures/tokenizers" / name;
  return parse_json(contents(path), name);
}

std::unique_ptr<Tokenizer> make(const std::string& json) {
  Pipeline pipeline = read_tokenizer_json(json, "test.json");
  const Metadata roles = roles_of(pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

// Returns recorded ids; the ids of a probe may be written as text.
Ids ids_of(const Json& recorded) {
  if (!recorded.is_string()) return recorded.get<Ids>();
  Ids ids;
  for (const char c : recorded.get<std::string>()) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string out;
  for (const int32_t id : ids) {
    const std::string part = detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    out += part;
  }
  return out + detokenizer.finish();
}

TEST(TokenizerJson, ComponentsMatchRecordedIdsAndText) {
  const Json all = fixture("components.json");
  EXPECT_GT(all["tokenizers"].size(), 150U);
  for (const Json& item : all["tokenizers"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    Json whole = item["tokenizer"];
    if (whole["model"] == "probe") whole["model"] = all["probe"];
    const auto tokenizer = make(dump_json(whole));
    const Json& plain = item["plain"].is_null() ? item["ids"] : item["plain"];
    // The library applies the file's `truncation`, which Tokenizer leaves to its caller.
    const Json* truncation = whole.member("truncation");
    EncodeOptions usual, bare = kPlain;
    if (truncation != nullptr && truncation->is_object())
      usual.max_tokens = bare.max_tokens = (*truncation)["max_length"].get<size_t>();
    for (size_t i = 0; i < all["texts"].size(); ++i) {
      const auto text = all["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer->encode(text, usual), ids_of(item["ids"][i])) << text;
      EXPECT_EQ(tokenizer->encode(text, bare), ids_of(plain[i])) << text;
    }
    for (const Json& decode : item["decodes"]) {
      const Ids ids = decode[0].get<Ids>();
      EXPECT_EQ(valid_utf8(tokenizer->decode(ids)), decode[1].get<std::string>());
      EXPECT_EQ(valid_utf8(tokenizer->decode(ids, true)), decode[2].get<std::string>());
      streamed(*tokenizer, ids);
    }
  }
}

// The error names the defect whatever else the file contains.
TEST(TokenizerJson, ErrorsNameTheCauseInHostileFiles) {
  const std::string words = R"("model":{"type":"WordLevel","vocab":{"a":0}})";
  const std::string merges = R"("vocab":{"a":0,"b":1,"ab":2},"merges":)";
  const std::string chain = [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += R"({"type":"Sequence","normalizers":[)";
    return text;
  }();
  const struct {
    std::string json;
    ErrorKind kind;
    std::string part;
  } kCases[] = {
      {"", ErrorKind::kFormat, "expected a value"},
      {"[]", ErrorKind::kFormat, "expected an object"},
      {"{}", ErrorKind::kFormat, "\"model\" is missing"},
      {"{" + words, ErrorKind::kFormat, "\",\" or \"}\""},
      {"{" + words + "} x", ErrorKind::kFormat, "the end"},
      {"{\"x\":" + std::string(1'000'000, '['), ErrorKind::kFormat, "levels deep"},
      {"{\"normalizer\":" + chain, ErrorKind::kFormat, "levels deep"},
      {R"({"model":{"type":"Other","vocab":{}}})", ErrorKind::kUnsupported, "Other"},
      {R"({"model":{"type":"BPE","vocab":[],"merges":[]}})", ErrorKind::kFormat, "vocab"},
      {R"({"model":{"type":"BPE","vocab":{"a":"0"},"merges":[]}})", ErrorKind::kFormat,
       "an integer"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", ErrorKind::kFormat, "-1"},
      {R"({"model":{"type":"BPE","vocab":{"a":4000000000},"merges":[]}})", ErrorKind::kLimit,
       "4000000000"},
      {R"({"model":{"type":"BPE","vocab":{"a":99999999999999999999},"merges":[]}})",
       ErrorKind::kFormat, "an integer"},
      {R"({"model":{"type":"BPE",)" + merges + R"(["a c"]}})", ErrorKind::kFormat, "\"c\""},
      {R"({"model":{"type":"BPE",)" + merges + R"([["b","a"]]}})", ErrorKind::kFormat, "merge 0"},
      {R"({"model":{"type":"BPE",)" + merges + R"([["a"]]}})", ErrorKind::kFormat, "two tokens"},
      {R"({"model":{"type":"BPE",)" + merges + R"([7]}})", ErrorKind::kFormat, "an array"},
      {R"({"model":{"type":"BPE","unk_token":"?",)" + merges + R"([]}})", ErrorKind::kFormat,
       "unknown token"},
      {R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",0]]}})", ErrorKind::kFormat,
       "unk_id"},
      {R"({"model":{"type":"Unigram","vocab":[["a"]]}})", ErrorKind::kFormat, "the score"},
      {"{" + words + R"(,"normalizer":{"type":"Other"}})", ErrorKind::kUnsupported, "normalizer"},
      {"{" + words + R"(,"normalizer":7})", ErrorKind::kFormat, "normalizer"},
      {"{" + words + R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="}})",
       ErrorKind::kFormat, "character map"},
      {"{" + words + R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"}}})",
       ErrorKind::kFormat, "(a"},
      {"{" + words + R"(,"pre_tokenizer":{"type":"FixedLength","length":0}})", ErrorKind::kFormat,
       "length"},
      {"{" + words + R"(,"post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",9]}})",
       ErrorKind::kFormat, "token 9"},
      {"{" + words + R"(,"decoder":{"type":"Strip","content":"ab"}})", ErrorKind::kFormat,
       "content"},
      {"{" + words + R"(,"added_tokens":[{"content":7}]})", ErrorKind::kFormat, "a string"},
  };
  for (const auto& [json, kind, part] : kCases) {
    try {
      make(json);
      ADD_FAILURE() << "no error: " << json.substr(0, 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 500U);
    }
  }
}

TEST(TokenizerJson, MalformedTextBecomesBytes) {
  Json whole = fixture("components.json")["tokenizers"][0]["tokenizer"];
  whole["model"] = fixture("components.json")["probe"];
  whole["pre_tokenizer"] =
      parse_json(R"({"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"})", "part");
  whole.erase("normalizer");
  const auto tokenizer = make(dump_json(whole));
  EXPECT_EQ(tokenizer->encode("a\xFF\xC3"), (Ids{'a', '|', 0xFF, 0xC3, '|'}));
}

std::string digest(std::string_view bytes) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return fmt::format("{:08x}", static_cast<uint32_t>(value >> 32 ^ value));
}

std::string digest(const Ids& ids, const Ids& plain) {
  std::string bytes;
  const auto append = [&](uint32_t id) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 0xFF);
  };
  for (const int32_t id : ids) append(static_cast<uint32_t>(id));
  append(0xFFFFFFFF);
  for (const int32_t id : plain) append(static_cast<uint32_t>(id));
  return digest(bytes);
}

// tokenizer.json files of published models, if they are available beside the checkout.
class PublishedTokenizer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const fs::path packed =
        fs::path(VEERY_SOURCE_DIR) / "../shared/tokenizers" / (std::string(GetParam()) + ".tar.xz");
    if (!fs::exists(packed)) GTEST_SKIP() << packed << " is not there";
    root_ = fs::temp_directory_path() / fmt::format("veery-{}-{}", GetParam(), ::getpid());
    folder_ = root_ / GetParam();
    fs::create_directories(root_);
    const std::string command =
        "tar -xJf '" + packed.string() + "' -C '" + root_.string() + "' 2> /dev/null";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << "tar cannot unpack " << packed;
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_, folder_;
};

TEST_P(PublishedTokenizer, MatchesRecordedIdsAndText) {
  const auto tokenizer = load_tokenizer_folder(folder_.string());
  std::istringstream lines(
      contents(fs::path(VEERY_SOURCE_DIR) / "tests/fixtures/tokenizers/published.txt"));
  const std::string head = fmt::format("= {} {}", GetParam(), tokenizer->size());
  std::string line;
  while (std::getline(lines, line) && line != head) continue;
  ASSERT_EQ(line, head);
  const Json texts = fixture("strings.json");
  ASSERT_GT(texts.size(), 2000U);
  int wrong = 0;
  for (const Json& item : texts) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto text = item.get<std::string>();
    const Ids ids = tokenizer->encode(text);
    const std::string shown = valid_utf8(tokenizer->decode(ids));
    const std::string found = digest(ids, tokenizer->encode(text, kPlain)) +
                              digest(shown + '\0' + valid_utf8(tokenizer->decode(ids, true)));
    EXPECT_EQ(streamed(*tokenizer, ids), shown);
    if (found != line && ++wrong < 10) ADD_FAILURE() << testing::PrintToString(text);
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(PublishedTokenizer, CachedWordsGiveTheSameIds) {
  const auto tokenizer = load_tokenizer_folder(folder_.string());
  std::string text = "\n";
  for (const Json& item : fixture("strings.json")) text += item.get<std::string>() + "\n";
  const Ids once = tokenizer->encode(text, kPlain), twice = tokenizer->encode(text + text, kPlain);
  // Ids may differ where the halves meet.
  constexpr ptrdiff_t kMargin = 8;
  ASSERT_GT(once.size(), 10'000U);
  EXPECT_TRUE(std::equal(once.begin(), once.end() - kMargin, twice.begin()));
  EXPECT_TRUE(std::equal(once.rbegin(), once.rend() - kMargin, twice.rbegin()));
}

TEST_P(PublishedTokenizer, MatchesTheRecordedPair) {
  const auto tokenizer = load_tokenizer_folder(folder_.string());
  const Json all = fixture("pairs.json");  // recorded by tools/oracle/pair_encodings.py
  const Encoding pair =
      tokenizer->encode_pair(all["pair"][0].get<std::string>(), all["pair"][1].get<std::string>());
  EXPECT_EQ(pair.ids, all["published"][GetParam()][0].get<Ids>());
  EXPECT_EQ(pair.types, all["published"][GetParam()][1].get<Ids>());
}

TEST_P(PublishedTokenizer, GivesTheSameIdsFromGguf) {
  const auto tokenizer = load_tokenizer_folder(folder_.string());
  ModelFile file;
  add_gguf_tokenizer(folder_.string(), tokenizer->size() + 7, file.metadata);
  const auto written = make_tokenizer(file);
  ASSERT_EQ(written->size(), tokenizer->size() + 7);
  EXPECT_EQ(written->special().bos, tokenizer->special().bos);
  EXPECT_EQ(written->special().ends, tokenizer->special().ends);
  int wrong = 0;
  for (const Json& item : fixture("strings.json")) {
    const auto text = item.get<std::string>();
    const Ids ids = tokenizer->encode(text);
    bool same = ids == written->encode(text);
    // GGUF readers treat this token as the end of an answer whatever its type.
    if (text.find("<|repo_name|>") == std::string::npos)
      same = same && tokenizer->encode(text, kPlain) == written->encode(text, kPlain) &&
             tokenizer->decode(ids) == written->decode(ids);
    if (!same && ++wrong < 10) ADD_FAILURE() << testing::PrintToString(text);
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(, PublishedTokenizer,
                         testing::Values("deepseek_v3", "gemma2", "gemma3", "llama2", "llama3_2",
                                         "mistral_nemo", "qwen2_5", "qwen3"));

}  // namespace
}  // namespace veery
