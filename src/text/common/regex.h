// regex.h: patterns of tokenizers, compiled once and matched anywhere in UTF-8 text.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace veery {

/// Working memory of searches, for one thread.
class RegexScratch {
 public:
  RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  ~RegexScratch();

 private:
  friend class Regex;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A compiled pattern; safe to use from several threads. \s is Unicode's White_Space.
class Regex {
 public:
  enum class Dialect {
    kPcre,
    kOniguruma,  ///< what tokenizer.json is written in: ^ and $ at lines, \h, classes with &&
  };
  /// Throws kFormat saying what is wrong with the pattern, kLimit if it is too long.
  explicit Regex(std::string_view pattern, Dialect dialect = Dialect::kPcre);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// The first match in `text` that begins at `from` or later. The text must be valid UTF-8.
  /// Throws kLimit, naming the pattern, if it needs too many steps: more than 10 million and 100
  /// for each byte of text that has been passed with the same `scratch`.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const;

  /// Calls `visit(match)` for each match in `text`, none overlapping. An empty match directly
  /// behind another is none.
  template <typename Visit>
  void for_each_match(std::string_view text, RegexScratch& scratch, const Visit& visit) const {
    Match match;
    size_t last_end = std::string_view::npos;
    for (size_t from = 0; from <= text.size() && find(text, from, scratch, match);) {
      const bool empty = match.end == match.begin;
      if (!empty || match.end != last_end) visit(match);
      last_end = from = match.end;
      if (empty && from < text.size())
        from += static_cast<size_t>(next_code_point(text.substr(from)).length);
      else if (empty)
        return;
    }
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The pattern that matches `text` and nothing else.
std::string regex_of(std::string_view text);

/// The same pattern in PCRE's syntax; exposed for tests.
std::string oniguruma_to_pcre(std::string_view pattern);

bool is_valid_utf8(std::string_view text);

/// Patterns cannot be matched in `text` itself: it has malformed bytes, or characters that the
/// library's tables lack.
bool needs_substitutes(std::string_view text);

/// A text of the same length for patterns: each malformed byte is U+001A (SUBSTITUTE), each
/// character that is too new one of its kind.
std::string with_substitutes(std::string_view text);

}  // namespace veery
