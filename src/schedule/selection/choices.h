// choices.h: how probable each of several continuations of a prompt is.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace veery {

/// The first token of each is scored by the logits behind the prompt. The others are scored by
/// running, behind the prompt, each different beginning that no other one continues, after which
/// the sequence goes back to the end of the prompt.
class Choices {
 public:
  /// Each has one token or more. `choices` must outlive it.
  explicit Choices(std::span<const std::vector<int32_t>> choices);

  bool over() const { return beginning_ == beginnings_.size() && scored_prompt_; }
  /// The next tokens to run, at most `most`: a piece of a beginning.
  std::span<const int32_t> next(int32_t most) const;
  /// Whether a piece of so many tokens ends the beginning.
  bool ends_with(size_t tokens) const;

  /// The logits behind the prompt.
  void score_prompt(std::span<const float> logits);
  /// The logits behind token `i` of next().
  void score(size_t i, std::span<const float> logits);
  /// So many tokens of next() were run and scored.
  void advance(size_t tokens);
  /// The sequence is to be run again: what was run of a beginning is forgotten.
  void restart() { done_ = 0; }

  /// Natural logarithms of the probabilities of all tokens of each choice.
  const std::vector<double>& logprobs() const { return logprobs_; }

 private:
  void score_behind(std::span<const int32_t> before, std::span<const float> logits);

  std::span<const std::vector<int32_t>> choices_;
  std::vector<std::vector<int32_t>> beginnings_;
  size_t beginning_ = 0, done_ = 0;
  bool scored_prompt_ = false;
  std::vector<double> logprobs_;
  std::vector<size_t> scored_;  // tokens of each choice
};

}  // namespace veery
