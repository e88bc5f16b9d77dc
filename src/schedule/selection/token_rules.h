// token_rules.h: the tokens that a request allows, bans or delays.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/answer_text.h"
#include "text/tokenizer.h"

namespace veery {

/// Applies GenerateOptions::allowed, banned and min_tokens. Both arguments of the constructor must
/// outlive it.
class TokenRules {
 public:
  TokenRules(const Tokenizer& tokenizer, const GenerateOptions& options);

  /// Whether the next token, after `made` tokens of the answer, is restricted.
  bool active(int64_t made) const;
  /// Sets the logits of tokens that must not follow `made`, the tokens of the answer so far, to
  /// minus infinity.
  void mask(std::span<const int32_t> made, std::span<float> logits) const;

 private:
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
};

}  // namespace veery
