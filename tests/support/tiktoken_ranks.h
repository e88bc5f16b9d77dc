// tiktoken_ranks.h: a small vocabulary in tiktoken's form.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace veery::test {

inline std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      out += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

/// 256 bytes, the words "lo", "er", "low", " l", " low", "lower" and "hello" (262, which no two
/// tokens make), and as many fillers as tell the rule of GPT-2.
inline std::string gpt2_ranks() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"lo", "er", "low", " l", " low", "lower", "hello"})
    tokens.emplace_back(word);
  while (tokens.size() < 50256) tokens.push_back(fmt::format("\x01{}\x02", tokens.size()));
  std::string ranks;
  for (size_t i = 0; i < tokens.size(); ++i) ranks += fmt::format("{} {}\n", base64(tokens[i]), i);
  return ranks;
}

}  // namespace veery::test
