// regex.h: regular expressions of tokenizers on UTF-8 text.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace veery {

/// Working memory of searches. Not thread-safe.
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

/// A compiled pattern. Thread-safe. \s matches Unicode's White_Space.
class Regex {
 public:
  enum class Dialect {
    kPcre,
    kOniguruma,  ///< the dialect of tokenizer.json: ^ and $ at lines, \h, classes with &&
  };
  /// Throws kFormat with the cause if the pattern is invalid and kLimit if it is too long.
  explicit Regex(std::string_view pattern, Dialect dialect = Dialect::kPcre);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// Finds the first match that begins at or after `from`. The text must be valid UTF-8. Throws
  /// kLimit, naming the pattern, if searches with the same `scratch` take more than 100 million
  /// steps plus 100 per byte of text.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const;

  /// Calls `visit(match)` for all non-overlapping matches. An empty match directly after another
  /// match is skipped.
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

/// Returns a pattern that matches exactly `text`.
std::string regex_of(std::string_view text);

/// Converts a pattern from Oniguruma's to PCRE's syntax. Exposed for tests.
std::string oniguruma_to_pcre(std::string_view pattern);

bool is_valid_utf8(std::string_view text);

/// Returns whether patterns cannot be matched on `text` itself because it has malformed bytes or
/// characters that the library's tables lack.
bool needs_substitutes(std::string_view text);

/// Returns a text of the same length for matching: malformed bytes become U+001A (SUBSTITUTE),
/// characters that are too new become characters of the same class.
std::string with_substitutes(std::string_view text);

}  // namespace veery
