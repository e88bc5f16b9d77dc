// Hostile tokenizer files: work and output length are limited, with an error that names the
// component.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "text/common/regex.h"
#include "text/format/tokenizer_json.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> make(const Json& json) {
  Pipeline pipeline = read_tokenizer_json(dump_json(json), "test.json");
  const Metadata roles = roles_of(pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

Json word_level() {
  return {{"model", {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"?", 1}}}, {"unk_token", "?"}}}};
}

// Returns a Sequence of equal components.
Json repeated(const Json& part, size_t count, const char* parts) {
  return {{"type", "Sequence"}, {parts, std::vector<Json>(count, part)}};
}

template <typename Run>
void expect_refused(ErrorKind kind, std::initializer_list<std::string> parts, const Run& run) {
  try {
    run();
    ADD_FAILURE() << "not refused: " << *parts.begin();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.kind(), kind) << what;
    EXPECT_LT(what.size(), 400U);
    for (const std::string& part : parts) EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

void expect_refused_text(const char* part, const Json& json, const std::string& text,
                         std::initializer_list<std::string> messages) {
  Json whole = word_level();
  whole[part] = json;
  const auto tokenizer = make(whole);
  expect_refused(ErrorKind::kLimit, messages, [&] { tokenizer->encode(text); });
}

Json replacement(const char* kind, const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

TEST(HostileTokenizer, NormalizersCannotMultiplyText) {
  const std::string big(1'000'000, 'x');
  expect_refused_text("normalizer", repeated(replacement("String", "a", "aa"), 60, "normalizers"),
                      "a", {"normalizer 16 (\"Replace\")", "a text of 1 bytes;", "65600"});
  expect_refused_text("normalizer", repeated(replacement("Regex", "a", "aa"), 60, "normalizers"),
                      "a", {"normalizer 16 (\"Replace\")"});
  expect_refused_text("normalizer", repeated({{"type", "ByteLevel"}}, 60, "normalizers"), "é",
                      {"(\"ByteLevel\")"});
  expect_refused_text("normalizer", {{"type", "Prepend"}, {"prepend", big}}, "a",
                      {"normalizer 0 (\"Prepend\")"});
  // Fails long before the output is complete (1 TB).
  expect_refused_text("normalizer", replacement("String", "a", big), std::string(1'000'000, 'a'),
                      {"(\"Replace\")"});
  expect_refused_text("normalizer", replacement("Regex", "x*", big), std::string(1'000'000, 'a'),
                      {"(\"Replace\")"});
  // The limit also applies across the texts between added tokens.
  Json whole = word_level();
  whole["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(60'000, 'x')}};
  whole["added_tokens"] = {{{"content", "<b>"}, {"id", 2}, {"special", true}}};
  const auto tokenizer = make(whole);
  EXPECT_NO_THROW(tokenizer->encode("a"));
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "a<b>";
  expect_refused(ErrorKind::kLimit, {"the text"}, [&] {
    try {
      tokenizer->encode(text);
    } catch (const Error& error) {
      throw Error(error.kind(), "the text: {}", error.what());
    }
  });
}

TEST(HostileTokenizer, AcceptsTheGrowthOfUnicodeNormalForms) {
  Json whole = word_level();
  whole["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "NFKD"}}, replacement("String", " ", "\u2581"), {{"type", "ByteLevel"}}}}};
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\uFDFA";  // NFKD produces 33 bytes for it
  EXPECT_NO_THROW(make(whole)->encode(text));
}

TEST(HostileTokenizer, PreTokenizersCannotMultiplyText) {
  const Json bytes = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  expect_refused_text("pre_tokenizer", repeated(bytes, 60, "pretokenizers"), "é",
                      {"pre_tokenizer \"ByteLevel\""});
  // Each component prepends a mark to each word.
  std::vector<Json> parts;
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "a ";
  for (int i = 0; i < 99; ++i)
    parts.push_back({{"type", "Metaspace"},
                     {"replacement", i % 2 == 0 ? "\u2581" : "_"},
                     {"prepend_scheme", "always"}});
  expect_refused_text("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", parts}}, words,
                      {"pre_tokenizer \"Metaspace\""});
}

TEST(HostileTokenizer, DecodersCannotMultiplyText) {
  Json whole = word_level();
  whole["decoder"] = repeated(replacement("String", "a", "aa"), 60, "decoders");
  const auto tokenizer = make(whole);
  expect_refused(ErrorKind::kLimit, {"decoder 16 (\"Replace\")", "a text of 1 bytes;"},
                 [&] { tokenizer->decode({0}); });
  expect_refused(ErrorKind::kLimit, {"\"Replace\""}, [&] { tokenizer->piece(0); });
}

TEST(HostileTokenizer, ReplacesMarksOfALongTokenInOnePass) {
  Json whole = word_level();
  std::string marks, spaces(600'000, ' ');
  for (size_t i = 0; i < spaces.size(); ++i) marks += "\u2581";
  whole["model"]["vocab"][marks] = 2;
  whole["decoder"] = {{"type", "Metaspace"}, {"prepend_scheme", "never"}};
  EXPECT_EQ(make(whole)->decode({2}), spaces);
}

TEST(HostileTokenizer, PartsHaveABoundedNumberOfSteps) {
  const struct {
    const char* part;
    const char* parts;
    Json step;
    size_t most;
  } kCases[] = {{"normalizer", "normalizers", {{"type", "NFC"}}, 1000},
                {"pre_tokenizer", "pretokenizers", {{"type", "Whitespace"}}, 100},
                {"decoder", "decoders", {{"type", "Fuse"}}, 1000}};
  for (const auto& [part, parts, step, most] : kCases) {
    Json whole = word_level();
    whole[part] = repeated(step, most, parts);
    EXPECT_EQ(make(whole)->encode("a"), Ids{0});
    EXPECT_EQ(make(whole)->decode({0}), "a");
    whole[part] = repeated(step, 5000, parts);
    expect_refused(ErrorKind::kLimit, {part, fmt::format("more than {} ", most)},
                   [&] { make(whole); });
  }
}

TEST(HostileTokenizer, TemplatesAddABoundedNumberOfTokens) {
  Json whole = word_level();
  const Json special = {{"SpecialToken", {{"id", "b"}, {"type_id", 0}}}};
  std::vector<Json> single(5000, special);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  whole["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", single},
      {"special_tokens", {{"b", {{"id", "b"}, {"ids", std::vector<int>(20'000, 1)}}}}}};
  expect_refused(ErrorKind::kLimit, {"post_processor", "1024"}, [&] { make(whole); });
}

TEST(HostileTokenizer, TextsOfTheFileHaveABoundedLength) {
  const std::string big(100'000, 'b');
  Json whole = word_level();
  whole["added_tokens"] = {{{"content", big}, {"id", 2}}};
  expect_refused(ErrorKind::kLimit, {"added_tokens", "100000 bytes", "1024"}, [&] { make(whole); });

  whole = word_level();
  whole["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(5000, 'b')}};
  whole["added_tokens"] = {{{"content", "<c>"}, {"id", 2}, {"normalized", true}}};
  expect_refused(ErrorKind::kLimit, {"<c>", "normalized"}, [&] { make(whole); });

  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    whole = {
        {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}, {key, big}}}};
    expect_refused(ErrorKind::kLimit, {key, "100000 bytes"}, [&] { make(whole); });
  }
  whole = {{"model", {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}}}};
  whole["model"]["continuing_subword_prefix"] = big;
  expect_refused(ErrorKind::kLimit, {"continuing_subword_prefix"}, [&] { make(whole); });
}

TEST(HostileTokenizer, LimitsLookUpsOfLongTokens) {
  const std::string text(100'000, 'a');
  Json unigram = {{"model", {{"type", "Unigram"}, {"unk_id", 0}}}};
  const std::string longest = std::string(60'000, 'a') + "b";
  unigram["model"]["vocab"] = Json::array(
      {Json::array({"?", 0.0}), Json::array({"a", -1.0}), Json::array({longest, -2.0})});
  Json pieces = {{"model", {{"type", "WordPiece"}, {"unk_token", "a"}}}};
  pieces["model"]["vocab"] = {{"a", 0}, {"##a", 1}, {longest, 2}};
  pieces["model"]["max_input_chars_per_word"] = 1'000'000;
  for (const Json& whole : {unigram, pieces}) {
    const auto tokenizer = make(whole);
    EXPECT_EQ(tokenizer->encode("aaa").size(), 3U);
    expect_refused(ErrorKind::kLimit, {"vocabulary", "100000"}, [&] { tokenizer->encode(text); });
  }
}

// Each token extends to the end of the run; a naive implementation scans the run from each
// position.
TEST(HostileTokenizer, TokensAbsorbWhitespaceInOnePass) {
  for (const bool left : {false, true}) {
    Json whole = word_level();
    whole["added_tokens"] = {{{"content", " "}, {"id", 2}, {"lstrip", left}, {"rstrip", !left}}};
    const auto tokenizer = make(whole);
    EXPECT_EQ(tokenizer->encode("a   a"), (Ids{0, 2, 2, 2, 0}));
    EXPECT_EQ(tokenizer->encode(std::string(300'000, ' ')).size(), 300'000U);
  }
}

// The library's algorithm takes minutes for this text.
TEST(HostileTokenizer, SortsLongRunsOfCombiningMarks) {
  Json whole = word_level();
  whole["normalizer"] = {{"type", "NFD"}};
  std::string text = "a", ordered = "a";
  for (int i = 0; i < 100'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  for (int i = 0; i < 50'000; ++i) ordered += "\u0323";
  for (int i = 0; i < 50'000; ++i) ordered += "\u0301";
  Pipeline pipeline = read_tokenizer_json(dump_json(whole), "test.json");
  Growth growth(text.size());
  EXPECT_EQ(pipeline.normalizer(text, growth), ordered);
}

Json split_at(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
}

TEST(HostileTokenizer, ErrorsNamePatternsThatBacktrackForever) {
  for (const char* pattern : {"(a+)+b", "(a|aa)+$", "(a*)*b", "(?:a?){40}a{40}b", "(\\w+\\s?)+;"})
    expect_refused_text("pre_tokenizer", split_at(pattern), std::string(200, 'a') + "!;b",
                        {pattern, "too many steps"});
  // Each word takes a million steps, which is permitted once but not for many words.
  std::string words;
  for (int i = 0; i < 20'000; ++i) words += "aaaaaaaaaaaaaaaaaaaa ";
  words += "b";
  expect_refused_text("pre_tokenizer", split_at("(a+)+b"), words, {"(a+)+b", "too many steps"});
  expect_refused_text("normalizer", replacement("Regex", "(a+)+b", "x"),
                      std::string(200, 'a') + "!b", {"(a+)+b", "too many steps"});
}

TEST(HostileTokenizer, InvalidPatternsReportTheCause) {
  const struct {
    std::string pattern;
    const char* what;
  } kCases[] = {{"(a", "missing )"},
                {"a)", "unmatched )"},
                {"[a", "missing ]"},
                {"*a", "nothing to repeat"},
                {"a\\", "at the end of the pattern"},
                {"a{3,2}", "out of order"},
                {"a{99999}", "too large"},
                {"[z-a]", "out of order"},
                {"\\p{Klingon}", "unknown property"},
                {"(?<=a+)b", "without a fixed length"},
                {"\\3", "a group that does not exist"},
                {"(?<n>a)(?<n>b)", "the same name"},
                {"(?P<1>a)", "group name"},
                {"(?<>a)", "group name"},
                {"a\\Cb", "\\C"},
                {std::string(300, '(') + std::string(300, ')'), "too deeply"},
                {"((a{1,500}){1,500}){1,500}", "too large"}};
  for (const auto& [pattern, what] : kCases) {
    expect_refused(ErrorKind::kFormat, {"the pattern \"", pattern.substr(0, 60), what},
                   [&] { Regex regex(pattern); });
    expect_refused(ErrorKind::kFormat, {"the pattern \"", what},
                   [&] { Regex regex(pattern, Regex::Dialect::kOniguruma); });
  }
  expect_refused(ErrorKind::kFormat, {R"("a\n\x1b[2J(")"}, [] { Regex regex("a\n\x1b[2J("); });
  expect_refused(ErrorKind::kLimit, {"100000 bytes, at most 16384"},
                 [] { Regex regex(std::string(100'000, '['), Regex::Dialect::kOniguruma); });
  Json whole = word_level();
  whole["pre_tokenizer"] = split_at("(a");
  expect_refused(ErrorKind::kFormat, {"test.json: pre_tokenizer: the pattern \"(a\""},
                 [&] { make(whole); });
}

}  // namespace
}  // namespace veery
