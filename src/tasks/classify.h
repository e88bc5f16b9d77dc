// classify.h: which of several labels fits a text, by how probable a model finds each as its
// continuation.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"
#include "schedule/ticket.h"

namespace veery {

/// A prompt, and labels that may stand behind it, as tokens.
struct LabelTokens {
  std::vector<int32_t> prompt;
  std::vector<std::vector<int32_t>> labels;
};

/// Prompt and label are encoded together, as one text would be; tokens in which labels differ from
/// the prompt alone are theirs. `guard`: EncodeOptions::guard. Throws kInput naming a label that
/// has none.
LabelTokens encode_labels(const Tokenizer& tokenizer, std::string_view prompt,
                          std::span<const std::string> labels, std::string_view guard = {});

/// How texts become prompts.
struct LabelPromptOptions {
  /// "{text}" and "{labels}" stand for the text and for all labels with commas between them; empty:
  /// one that asks for the label alone.
  std::string form;
  bool raw = false;  ///< no chat template, even if the model has one
};

class LabelPrompt {
 public:
  /// Throws kInput if there are fewer than two labels, one is empty or there twice, or if "{text}"
  /// is not in the form. The model must outlive it.
  LabelPrompt(const Model& model, std::vector<std::string> labels,
              const LabelPromptOptions& options = {});

  const std::vector<std::string>& labels() const { return labels_; }
  LabelTokens encode(std::string_view text) const;

 private:
  const Model& model_;
  std::vector<std::string> labels_;
  LabelPromptOptions options_;
};

struct LabelScores {
  /// Of each label: the natural logarithm of the probability of all its tokens behind the prompt.
  std::vector<double> logprobs;
  std::vector<size_t> tokens;  ///< of each label
  size_t prompt_tokens = 0, reused_tokens = 0;

  /// Shares of the labels, which add up to 1. `mean`: of the geometric mean of each label's tokens,
  /// which does not prefer short labels.
  std::vector<double> probabilities(bool mean = false) const;
};

/// Scheduler::submit() or what leads to it.
using Submit = std::function<std::shared_ptr<Ticket>(GenerateRequest)>;

/// Scores the labels of each, as many at a time as there are slots; `progress`: called with texts
/// done and texts in all. Throws what `submit` throws and what ended an answer; the others are
/// cancelled then.
std::vector<LabelScores> score_labels(const Submit& submit, int32_t slots,
                                      std::span<const LabelTokens> texts,
                                      const std::function<void(size_t, size_t)>& progress = {});

}  // namespace veery
