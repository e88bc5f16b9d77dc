// world_vocabulary.h: vocabulary files of RWKV World: lines of an id, a Python literal and its
// length in bytes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Returns whether the first line is a number, a space and a literal.
bool is_world_vocabulary(std::string_view text);

/// Tokens by id, written as in the metadata for GreedyTokenizer. Ids missing in the file are
/// unused; id 0 ends a text.
struct WorldVocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;  ///< values of tokenizer.ggml.token_type
};

/// Throws kFormat, naming `what` and the line.
WorldVocabulary read_world_vocabulary(std::string_view text, const std::string& what);

}  // namespace veery
