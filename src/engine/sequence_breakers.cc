#include "engine/sequence_breakers.h"

#include <algorithm>

namespace veery {

std::vector<std::string> usual_sequence_breakers() { return {"\n", ":", "\"", "*"}; }

std::shared_ptr<const std::vector<bool>> sequence_breakers(const Tokenizer& tokenizer,
                                                           int64_t vocab,
                                                           std::span<const std::string> texts) {
  if (texts.empty()) return nullptr;
  auto found = std::make_shared<std::vector<bool>>(static_cast<size_t>(vocab));
  const auto known = std::min<int64_t>(vocab, tokenizer.size());
  for (int64_t id = 0; id < known; ++id) {
    const std::string piece = tokenizer.piece(static_cast<int32_t>(id));
    (*found)[static_cast<size_t>(id)] = std::ranges::any_of(
        texts, [&](const std::string& text) { return piece.find(text) != std::string::npos; });
  }
  return found;
}

}  // namespace veery
