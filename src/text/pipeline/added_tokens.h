// added_tokens.h: `added_tokens` of a tokenizer.json: tokens that are matched in text before the
// model tokenises the rest.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool lstrip = false, rstrip = false;  ///< absorbs whitespace on that side
  bool single_word = false;             ///< does not match inside a word
  bool normalized = false;              ///< matched in the normalised text
  bool special = false;
};

/// Matches token texts: leftmost, then longest.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;    ///< as it occurs in the searched text
    uint32_t token = 0;  ///< index in the list of added tokens
  };
  explicit AddedTokenMatcher(std::vector<Entry> entries = {});

  bool empty() const { return entries_.empty(); }

  struct Match {
    int64_t token = -1;  ///< -1: none
    size_t begin = 0, end = 0;
  };
  /// Returns the first match at or after `from`.
  Match next(std::string_view text, size_t from) const;

 private:
  const Entry* longest_at(std::string_view rest) const;

  std::vector<Entry> entries_;         // sorted by text
  std::array<uint32_t, 257> first_{};  // range of entries by first byte: [first_[b], first_[b + 1])
  std::vector<unsigned char> firsts_;  // distinct first bytes, if there are few
};

/// Splits text into added tokens and the text between them.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Maximum length of a token in bytes, since each position of a text may be compared with all of
  /// it.
  static constexpr size_t kLongest = 1024;

  /// `texts[i]`: tokens[i].content, normalised if the token requires it. Throws kLimit if a text is
  /// longer than kLongest.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& texts);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Calls `visit(token or nullptr, part)` for all parts of `text` in order. If `special` is false,
  /// special tokens are not reported and their text is part of the plain text.
  template <typename Visit>
  void for_each_part(std::string_view text, bool normalized, bool special,
                     const Visit& visit) const {
    size_t done = 0, white_end = 0;
    const AddedTokenMatcher& matcher = normalized ? normalized_ : raw_;
    for (size_t from = 0; from < text.size() && !matcher.empty();) {
      const AddedTokenMatcher::Match match = matcher.next(text, from);
      if (match.token < 0) break;
      from = match.end;
      const AddedToken& token = tokens_[static_cast<size_t>(match.token)];
      size_t begin = match.begin, end = match.end;
      if (!accept(token, text, special, {done, white_end}, begin, end)) continue;
      if (token.rstrip) white_end = end;
      if (done < begin) visit(nullptr, text.substr(done, begin - done));
      visit(&token, text.substr(begin, end - begin));
      done = end;
    }
    if (done < text.size()) visit(nullptr, text.substr(done));
  }

 private:
  struct Seen {
    size_t done;       // end of the last token; lstrip does not extend before it
    size_t white_end;  // end of the last whitespace absorbed by rstrip
  };
  static bool accept(const AddedToken& token, std::string_view text, bool special, const Seen& seen,
                     size_t& begin, size_t& end);

  std::vector<AddedToken> tokens_;
  AddedTokenMatcher raw_, normalized_;
};

}  // namespace veery
