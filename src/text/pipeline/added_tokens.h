// added_tokens.h: tokens that are found in text as a whole before the model sees it, as the
// `added_tokens` of a tokenizer.json say.
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
  bool lstrip = false, rstrip = false;  ///< white space on that side belongs to it
  bool single_word = false;             ///< not inside a word
  bool normalized = false;              ///< looked for in the normalized text
  bool special = false;
};

/// Texts of tokens, found leftmost first and the longest there.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;    ///< as it stands in the text that is searched
    uint32_t token = 0;  ///< index in the list of added tokens
  };
  explicit AddedTokenMatcher(std::vector<Entry> entries = {});

  bool empty() const { return entries_.empty(); }

  struct Match {
    int64_t token = -1;  ///< -1: none
    size_t begin = 0, end = 0;
  };
  /// The first match at or after `from`.
  Match next(std::string_view text, size_t from) const;

 private:
  const Entry* longest_at(std::string_view rest) const;

  std::vector<Entry> entries_;         // sorted by text
  std::array<uint32_t, 257> first_{};  // entries by first byte: [first_[b], first_[b + 1])
  std::vector<unsigned char> firsts_;  // the first bytes, if there are few
};

/// The tokens and the gaps between them.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Bytes of a token: each place of a text may be compared with all of it.
  static constexpr size_t kLongest = 1024;

  /// `texts[i]`: tokens[i].content, normalized if the token says so. Throws kLimit if one is longer
  /// than kLongest.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& texts);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Calls `visit(token or nullptr, part)` for all of `text` in order. `special`: special tokens
  /// are found, else their text is only stepped over.
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
    size_t done;       // the end of the last token; white space is not taken from before it
    size_t white_end;  // the end of the last run of white space behind a token
  };
  static bool accept(const AddedToken& token, std::string_view text, bool special, const Seen& seen,
                     size_t& begin, size_t& end);

  std::vector<AddedToken> tokens_;
  AddedTokenMatcher raw_, normalized_;
};

}  // namespace veery
