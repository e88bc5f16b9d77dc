#include "schedule/selection/token_rules.h"

#include <algorithm>
#include <limits>

namespace veery {

TokenRules::TokenRules(const Tokenizer& tokenizer, const GenerateOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

bool TokenRules::active(int64_t made) const {
  return made < options_.min_tokens || !options_.allowed.empty() || !options_.banned.empty();
}

void TokenRules::mask(std::span<const int32_t> made, std::span<float> logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (!options_.allowed.empty()) {
    size_t next = 0;  // allowed is ascending
    for (size_t id = 0; id < logits.size(); ++id) {
      while (next < options_.allowed.size() && static_cast<size_t>(options_.allowed[next]) < id)
        ++next;
      if (next == options_.allowed.size() || static_cast<size_t>(options_.allowed[next]) != id)
        logits[id] = kNever;
    }
  }
  const auto ban = [&](int32_t id) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] = kNever;
  };
  if (std::ssize(made) < options_.min_tokens) {
    std::ranges::for_each(tokenizer_.special().ends, ban);
    std::ranges::for_each(options_.stop_ids, ban);
  }
  for (const std::vector<int32_t>& words : options_.banned) {
    const size_t before = words.size() - 1;
    if (before > made.size()) continue;
    const auto last = made.last(before);
    if (std::equal(last.begin(), last.end(), words.begin())) ban(words.back());
  }
}

}  // namespace veery
