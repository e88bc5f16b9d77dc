// token_rules.h: tokens that a request allows, bans, or puts off.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/answer_text.h"
#include "text/tokenizer.h"

namespace veery {

/// The tokens that may come next by GenerateOptions::allowed, banned and min_tokens. Refers to both
/// arguments of its constructor.
class TokenRules {
 public:
  TokenRules(const Tokenizer& tokenizer, const GenerateOptions& options);

  /// Whether the next token, after `made` tokens of the answer, is restricted.
  bool active(int64_t made) const;
  /// Sets the logits of tokens that may not follow `made`, the answer's tokens so far, to minus
  /// infinity.
  void mask(std::span<const int32_t> made, std::span<float> logits) const;

 private:
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
};

}  // namespace veery
