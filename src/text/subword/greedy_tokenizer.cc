#include "text/subword/greedy_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

// Returns the bytes of a token written with Python's escapes.
std::string unescaped(std::string_view written) {
  std::string bytes;
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '\\') {
      bytes.push_back(written[i]);
      continue;
    }
    const char kind = i + 1 < written.size() ? written[++i] : '\0';
    constexpr std::pair<char, char> kKinds[] = {{'n', '\n'},  {'r', '\r'},  {'t', '\t'},
                                                {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
    const auto row = std::ranges::find(kKinds, kind, &std::pair<char, char>::first);
    if (row != std::end(kKinds)) {
      bytes.push_back(row->second);
      continue;
    }
    unsigned value = 0;
    const char* const digits = written.data() + std::min(i + 1, written.size());
    const char* const end =
        digits + std::min<size_t>(2, written.size() - std::min(i + 1, written.size()));
    const auto [last, error] = std::from_chars(digits, end, value, 16);
    if (kind != 'x' || error != std::errc() || last != digits + 2)
      throw Error(ErrorKind::kFormat,
                  "tokenizer.ggml.tokens has '{}', expected the escapes \\n, \\r, \\t, \\\\, \\', "
                  "\\\" and \\x with two digits",
                  printable(written));
    bytes.push_back(static_cast<char>(value));
    i += 2;
  }
  return bytes;
}

Vocabulary read_vocabulary(const Metadata& metadata) {
  const Vocabulary written(metadata, false);
  std::vector<std::string> tokens;
  std::vector<TokenType> types;
  for (int32_t id = 0; id < written.size(); ++id) {
    const bool text = written.type(id) == TokenType::kNormal;
    tokens.push_back(text ? unescaped(written.bytes(id)) : std::string(written.bytes(id)));
    types.push_back(written.type(id));
  }
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  return {views, std::move(types), false};
}

}  // namespace

GreedyTokenizer::GreedyTokenizer(const Metadata& metadata)
    : VocabularyTokenizer(metadata, read_vocabulary(metadata), {}, false) {
  for (int32_t id = 0; id < vocabulary_.size(); ++id)
    if (vocabulary_.type(id) == TokenType::kNormal && !vocabulary_.bytes(id).empty())
      ordered_.push_back(id);
  // The sort is stable, so that the first of several duplicates is used.
  std::ranges::stable_sort(ordered_, {}, [&](int32_t id) { return vocabulary_.bytes(id); });
  for (const int32_t id : ordered_)
    ++begins_[static_cast<unsigned char>(vocabulary_.bytes(id)[0]) + size_t{1}];
  for (size_t byte = 1; byte < begins_.size(); ++byte) begins_[byte] += begins_[byte - 1];
}

// Narrows the sorted range byte by byte. A token of the current length is the first of its range.
int32_t GreedyTokenizer::longest_at(std::string_view text, size_t& length) const {
  const auto first = static_cast<unsigned char>(text[0]);
  std::span<const int32_t> range(ordered_.data() + begins_[first],
                                 ordered_.data() + begins_[first + size_t{1}]);
  int32_t best = -1;
  for (size_t depth = 1; !range.empty(); ++depth) {
    if (vocabulary_.bytes(range[0]).size() == depth) {
      best = range[0];
      length = depth;
    }
    if (depth == text.size()) break;
    const auto byte_at = [&](int32_t id) {
      const std::string_view bytes = vocabulary_.bytes(id);
      return bytes.size() > depth ? static_cast<int>(static_cast<unsigned char>(bytes[depth])) : -1;
    };
    const auto found = std::ranges::equal_range(
        range, static_cast<int>(static_cast<unsigned char>(text[depth])), {}, byte_at);
    range = std::span<const int32_t>(found.data(), found.size());
  }
  return best;
}

void GreedyTokenizer::encode_plain(std::string_view text, bool, std::vector<int32_t>& out,
                                   LostBytes& lost) const {
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    int32_t id = longest_at(text.substr(at), length);
    if (id < 0) id = special_.unknown;
    if (id >= 0)
      out.push_back(id);
    else
      lost.add(1, at);
    at += length;
  }
}

}  // namespace veery
