// classify.h: zero-shot classification: scores labels by their probability as continuation of a
// prompt.
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

/// The tokens of a prompt and of the labels that may follow it.
struct LabelTokens {
  std::vector<int32_t> prompt;
  std::vector<std::vector<int32_t>> labels;
};

/// Encodes the prompt together with each label, as one text. The tokens after the common prefix of
/// all encodings and of the prompt alone belong to the labels. `guard`: EncodeOptions::guard.
/// Throws kInput naming a label without tokens of its own.
LabelTokens encode_labels(const Tokenizer& tokenizer, std::string_view prompt,
                          std::span<const std::string> labels, std::string_view guard = {});

/// How a prompt is made of a text.
struct LabelPromptOptions {
  /// The prompt: "{text}" is replaced by the text, "{labels}" by all labels, separated by commas.
  /// Empty: a default that asks for the label alone.
  std::string form;
  bool raw = false;  ///< use no chat template, even if the model has one
};

class LabelPrompt {
 public:
  /// Throws kInput if there are fewer than two labels, if a label is empty or a duplicate, or if
  /// the form lacks "{text}". The model must outlive it.
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
  /// Natural logarithm of the probability of all tokens of each label after the prompt.
  std::vector<double> logprobs;
  std::vector<size_t> tokens;  ///< of each label
  size_t prompt_tokens = 0, reused_tokens = 0;

  /// Returns the softmax over the labels. `mean`: of the mean log probability per token, which does
  /// not prefer short labels, instead of the sum.
  std::vector<double> probabilities(bool mean = false) const;
};

/// Scheduler::submit() or a wrapper of it.
using Submit = std::function<std::shared_ptr<Ticket>(GenerateRequest)>;

/// Scores the labels of each text, `slots` requests at a time. `progress`: called with texts done
/// and the number of texts. Throws as `submit` does, and the error that ended a request; the
/// remaining requests are then cancelled.
std::vector<LabelScores> score_labels(const Submit& submit, int32_t slots,
                                      std::span<const LabelTokens> texts,
                                      const std::function<void(size_t, size_t)>& progress = {});

}  // namespace veery
