#include "text/format/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "text/common/base64.h"
#include "text/common/byte_alphabet.h"
#include "text/split/pre_tokenizer.h"

namespace veery {
namespace {

// The pre-tokenizer (tokenizer.ggml.pre) of known vocabularies by number of ranks.
constexpr std::pair<size_t, std::string_view> kRules[] = {
    {50256, "gpt-2"},    {100256, "llama3"}, {128000, "llama3"}, {151643, "qwen2"},
    {163584, "kimi-k2"}, {199998, "gpt-4o"}, {200000, "gpt-4o"}};

struct Line {
  std::string token;
  int64_t rank = -1;
};

bool read_line(std::string_view line, Line& out) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return false;
  auto bytes = decode_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != digits.data() + digits.size())
    return false;
  out.token = std::move(*bytes);
  return true;
}

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string> read_ranks(std::string_view text, const std::string& what) {
  std::vector<std::string> tokens;
  Line line;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view written = take_line(text);
    if (written.empty()) continue;
    if (!read_line(written, line) || line.rank != static_cast<int64_t>(tokens.size()))
      throw Error(ErrorKind::kFormat, "{}: line {}: expected a token in base64 and the rank {}",
                  what, number, tokens.size());
    tokens.push_back(to_alphabet(line.token));
  }
  return tokens;
}

}  // namespace

bool is_tiktoken(std::string_view text) {
  Line line;
  return read_line(take_line(text), line);
}

TiktokenModel read_tiktoken(std::string_view text, const std::string& what) {
  std::vector<std::string> tokens = read_ranks(text, what);
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const auto& known) { return known.first == tokens.size(); });
  if (rule == std::end(kRules))
    throw Error(ErrorKind::kUnsupported,
                "{}: unknown vocabulary of {} ranks, so its pre-tokenizer is not known", what,
                tokens.size());
  return {std::move(tokens), rule->second};
}

std::vector<MergeText> tiktoken_merges(const TiktokenModel& model, const Vocabulary& vocabulary) {
  std::vector<MergeText> merges;
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string_view written = model.tokens[i];
    const std::string_view bytes = vocabulary.bytes(static_cast<int32_t>(i));
    size_t at = 0;  // offset in `written`, whose characters have one or two bytes
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      at += static_cast<unsigned char>(written[at]) < 0x80 ? 1 : 2;
      if (vocabulary.find_bytes(bytes.substr(0, cut)) >= 0 &&
          vocabulary.find_bytes(bytes.substr(cut)) >= 0)
        merges.push_back({written.substr(0, at), written.substr(at)});
    }
  }
  return merges;
}

Pipeline tiktoken_pipeline(const TiktokenModel& model, std::vector<AddedToken> added) {
  const std::vector<std::string_view> texts(model.tokens.begin(), model.tokens.end());
  const auto vocabulary = std::make_shared<const Vocabulary>(texts, std::vector<TokenType>(), true);
  Splitter splitter;
  for (const std::string_view pattern : find_pre_tokenizer(model.rule)->patterns)
    splitter.add(split_at(Regex(pattern), SplitBehavior::kIsolated));
  std::vector<std::string> contents;
  for (const AddedToken& token : added) contents.push_back(token.content);
  return {
      .vocabulary = vocabulary,
      .model = BpeModel(vocabulary, tiktoken_merges(model, *vocabulary), {.ignore_merges = true}),
      .added = AddedTokens(std::move(added), contents),
      .normalizer = {},
      .splitter = std::move(splitter),
      .post = {},
      .decoder = TokenDecoder(parse_json(R"({"type":"ByteLevel"})", "decoder")),
      .keeps_end = false};
}

}  // namespace veery
