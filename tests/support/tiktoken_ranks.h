// tiktoken_ranks.h: a small vocabulary in tiktoken's format.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/common/base64.h"

namespace veery::test {

/// Returns 256 bytes, the words "lo", "er", "low", " l", " low", "lower" and "hello" (262, which no
/// merge of two tokens produces), and fillers up to the size that identifies GPT-2.
inline std::string gpt2_ranks() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"lo", "er", "low", " l", " low", "lower", "hello"})
    tokens.emplace_back(word);
  while (tokens.size() < 50256) tokens.push_back(fmt::format("\x01{}\x02", tokens.size()));
  std::string ranks;
  for (size_t i = 0; i < tokens.size(); ++i)
    ranks += fmt::format("{} {}\n", encode_base64(tokens[i]), i);
  return ranks;
}

}  // namespace veery::test
