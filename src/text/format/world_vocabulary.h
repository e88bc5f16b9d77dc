// world_vocabulary.h: RWKV's vocabularies: lines of an id, a literal of Python and its bytes'
// number.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// The first line is a number, a space and a literal.
bool is_world_vocabulary(std::string_view text);

/// By id, as GreedyTokenizer's metadata have them; ids that the file leaves out are not used, 0
/// ends a text.
struct WorldVocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;  ///< of tokenizer.ggml.token_type
};

/// Throws kFormat naming `what` and the line.
WorldVocabulary read_world_vocabulary(std::string_view text, const std::string& what);

}  // namespace veery
