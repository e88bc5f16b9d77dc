#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/characters.h"

namespace veery {
namespace {

// Returns the start of the character that ends at `end`.
size_t character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool word_before(std::string_view text, size_t end) {
  return end > 0 &&
         is_word_character(next_code_point(text.substr(character_before(text, end))).value);
}

bool word_after(std::string_view text, size_t begin) {
  return begin < text.size() && is_word_character(next_code_point(text.substr(begin)).value);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) ++first_[static_cast<unsigned char>(entry.text[0]) + 1U];
  for (size_t byte = 0; byte < 256; ++byte) {
    if (first_[byte + 1] > 0) firsts_.push_back(static_cast<unsigned char>(byte));
    first_[byte + 1] += first_[byte];
  }
}

// Narrows the sorted range byte by byte. An entry of the current length is the first of its range.
const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(std::string_view rest) const {
  const auto byte_at = [](std::string_view text, size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const Entry* low = entries_.data() + first_[byte_at(rest, 0)];
  const Entry* high = entries_.data() + first_[byte_at(rest, 0) + 1U];
  const Entry* best = nullptr;
  for (size_t length = 1; low < high; ++length) {
    if (low->text.size() == length) best = low;
    while (low < high && low->text.size() == length) ++low;
    if (length >= rest.size()) break;
    const unsigned char byte = byte_at(rest, length);
    low = std::partition_point(
        low, high, [&](const Entry& entry) { return byte_at(entry.text, length) < byte; });
    high = std::partition_point(
        low, high, [&](const Entry& entry) { return byte_at(entry.text, length) <= byte; });
  }
  return best;
}

AddedTokenMatcher::Match AddedTokenMatcher::next(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (firsts_.size() == 1) {
      const void* found = std::memchr(text.data() + at, firsts_[0], text.size() - at);
      if (!found) return {};
      at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    }
    const auto byte = static_cast<unsigned char>(text[at]);
    if (first_[byte] == first_[byte + 1U]) continue;
    const Entry* entry = longest_at(text.substr(at));
    if (entry) return {entry->token, at, at + entry->text.size()};
  }
  return {};
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& texts)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i)
    if (texts[i].size() > kLongest)
      throw Error(ErrorKind::kLimit, "\"{}\" has {} bytes{}, at most {} are permitted",
                  printable(tokens_[i].content), texts[i].size(),
                  tokens_[i].normalized ? " when normalized" : "", kLongest);
  std::vector<AddedTokenMatcher::Entry> raw, normalized;
  for (uint32_t i = 0; i < tokens_.size(); ++i)
    (tokens_[i].normalized ? normalized : raw).push_back({texts[i], i});
  raw_ = AddedTokenMatcher(std::move(raw));
  normalized_ = AddedTokenMatcher(std::move(normalized));
}

bool AddedTokens::accept(const AddedToken& token, std::string_view text, bool special,
                         const Seen& seen, size_t& begin, size_t& end) {
  if (token.special && !special) return false;
  if (token.single_word && (word_before(text, begin) || word_after(text, end))) return false;
  if (token.lstrip) {
    while (begin > seen.done) {
      const size_t before = character_before(text, begin);
      if (!is_white_space(next_code_point(text.substr(before)).value)) break;
      begin = before;
    }
    begin = std::max(begin, seen.done);
  }
  // A whitespace token may match again inside the whitespace that the previous token absorbed; all
  // such matches extend to the end of the run.
  if (token.rstrip) end = std::max(end, seen.white_end);
  while (token.rstrip && end < text.size()) {
    const CodePoint point = next_code_point(text.substr(end));
    if (!is_white_space(point.value)) break;
    end += static_cast<size_t>(point.length);
  }
  return begin < end;  // empty if the previous token absorbed all of it
}

}  // namespace veery
