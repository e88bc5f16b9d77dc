// spellings.h: flags and verbs of other programs (llama.cpp, Ollama, mlx-lm): synonyms of ours, and
// advice for the rest.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// Returns the spellings to try for `flag` if a verb does not have it: with '-' for '_', and our
/// names for a flag of another program.
std::vector<std::string> synonyms(std::string_view flag);

/// Returns what to use instead of a flag that veery does not have, or why it has none; empty if
/// the flag is unknown.
std::string_view flag_advice(std::string_view flag);

/// The same for a verb.
std::string_view verb_advice(std::string_view verb);

/// Returns the name that `word` is most likely a misspelling of; empty if none is close.
std::string nearest(std::string_view word, std::span<const std::string_view> names);

}  // namespace veery::cli
