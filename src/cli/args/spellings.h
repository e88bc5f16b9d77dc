// spellings.h: flags and verbs as other programs (llama.cpp, Ollama, mlx-lm) spell them: what means
// the same here, and what to say of the rest.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// Other spellings of `flag`, of which a verb may have one: with '-' for '_', and those of other
/// programs for the same thing.
std::vector<std::string> synonyms(std::string_view flag);

/// What to type instead of a flag that veery has not, or why it has none; empty if it is unknown.
std::string_view flag_advice(std::string_view flag);

/// The same of a verb.
std::string_view verb_advice(std::string_view verb);

/// The name that `word` is most likely a misspelling of; empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string_view> names);

}  // namespace veery::cli
