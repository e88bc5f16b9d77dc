#include "text/split/pre_tokenizer.h"

#include "base/error.h"
#include "base/utf8.h"
#include "text/common/regex.h"

namespace veery {
namespace {

// Appends the end offsets of the matches in `part` and of the gaps between them; `begin` is the
// offset of `part` in the text.
void split_part(const Regex& pattern, std::string_view part, size_t begin, RegexScratch& scratch,
                std::vector<uint32_t>& ends) {
  size_t cut = 0;  // end of the last part
  const auto cut_at = [&](size_t at) {
    if (at > cut) ends.push_back(static_cast<uint32_t>(begin + at));
    cut = at;
  };
  Regex::Match match;
  for (size_t from = 0; from < part.size() && pattern.find(part, from, scratch, match);) {
    cut_at(match.begin);
    cut_at(match.end);
    from = match.end;
    if (match.end == match.begin && from < part.size())
      from += static_cast<size_t>(next_code_point(part.substr(from)).length);
  }
  cut_at(part.size());
}

}  // namespace

PreTokenizer::PreTokenizer(std::span<const std::string_view> patterns) {
  for (const std::string_view pattern : patterns) patterns_.emplace_back(pattern);
}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  std::string substitute;
  if (needs_substitutes(text)) {
    substitute = with_substitutes(text);
    text = substitute;
  }
  ends.push_back(static_cast<uint32_t>(text.size()));
  std::vector<uint32_t> parts;
  RegexScratch scratch;
  for (const Regex& pattern : patterns_) {
    parts.swap(ends);
    ends.clear();
    size_t begin = 0;
    for (const uint32_t end : parts) {
      split_part(pattern, text.substr(begin, end - begin), begin, scratch, ends);
      begin = end;
    }
  }
}

}  // namespace veery
