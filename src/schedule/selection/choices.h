// choices.h: scores given continuations of a prompt.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace veery {

/// Computes the log-probability of each choice. The logits after the prompt score the first token
/// of every choice. For the other tokens, each distinct beginning (a choice without its last token)
/// that is not a prefix of another one is run after the prompt; then the sequence is rewound to the
/// end of the prompt.
class Choices {
 public:
  /// Each choice has one token or more. `choices` must outlive the object.
  explicit Choices(std::span<const std::vector<int32_t>> choices);

  bool over() const { return beginning_ == beginnings_.size() && scored_prompt_; }
  /// Returns the next tokens to run: up to `most` tokens of one beginning.
  std::span<const int32_t> next(int32_t most) const;
  /// Whether the beginning ends after `tokens` more tokens.
  bool ends_with(size_t tokens) const;

  /// Passes the logits after the prompt.
  void score_prompt(std::span<const float> logits);
  /// Passes the logits after token `i` of next().
  void score(size_t i, std::span<const float> logits);
  /// Records that the first `tokens` tokens of next() were run and scored.
  void advance(size_t tokens);
  /// Records that the sequence was lost: the current beginning is run again.
  void restart() { done_ = 0; }

  /// Returns, for each choice, the natural logarithm of the probability of all its tokens.
  const std::vector<double>& logprobs() const { return logprobs_; }

 private:
  void score_after(std::span<const int32_t> before, std::span<const float> logits);

  std::span<const std::vector<int32_t>> choices_;
  std::vector<std::vector<int32_t>> beginnings_;
  size_t beginning_ = 0, done_ = 0;
  bool scored_prompt_ = false;
  std::vector<double> logprobs_;
  std::vector<size_t> scored_;  // scored tokens of each choice
};

}  // namespace veery
