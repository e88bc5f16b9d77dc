// choice.h: flags whose value is one of a few words.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/args/arguments.h"

namespace veery::cli {

/// Returns "'WORD' is not one of A, B, C".
inline std::string not_one_of(std::string_view word, const std::vector<std::string>& words) {
  return fmt::format("'{}' is not one of {}", printable(word, 60), fmt::join(words, ", "));
}

/// Adds an option whose value is one of `choices`, pairs of a word and what `value` becomes. Words
/// in another case than that of the list are refused. `value` must outlive Arguments::read().
template <typename Choice, typename T>
Option add_choice(Arguments& app, const std::string& name, T& value, const std::string& help,
                  const std::vector<std::pair<std::string, Choice>>& choices) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  const auto take = [name, &value, choices, words](const std::string& text) {
    const auto found = std::ranges::find(words, text);
    if (found == words.end()) throw Misuse(name, not_one_of(text, words));
    value = choices[static_cast<size_t>(found - words.begin())].second;
  };
  return app.option_function(name, take, help).type_name("WORD").choices(words);
}

}  // namespace veery::cli
