// perplexity.h: perplexity of a model on a text, and divergence from the predictions of another.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sequence_reader.h"

namespace veery {

struct Perplexity {
  double perplexity = 0;
  double standard_error = 0;         ///< of the perplexity
  int64_t tokens = 0;                ///< number of scored tokens
  std::vector<double> window_means;  ///< mean negative log-likelihood of each window
};

/// Measures perplexity as llama.cpp does: consecutive windows of `window` tokens, without a shorter
/// rest; each starts with an empty KV cache and its first token replaced by BOS if the model adds
/// BOS; the tokens of the second half are scored. `ids`: the whole text with BOS. `progress`:
/// called with the result so far and the number of windows. Throws kInput if there is no whole
/// window, kLimit if a window exceeds the reader's context.
Perplexity perplexity(const Model& model, SequenceReader& reader, std::span<const int32_t> ids,
                      int32_t window,
                      const std::function<void(const Perplexity&, size_t)>& progress = {});

/// A mean and its standard error.
struct Estimate {
  double value = 0, error = 0;
};

/// The predictions of a model compared with those of a reference, on the same windows.
struct Comparison {
  Perplexity model, reference;
  Estimate ratio;       ///< of the perplexities, the model's over the reference's
  Estimate divergence;  ///< Kullback-Leibler, from the reference's predictions, in nats
  Estimate same_best;   ///< share of positions with the same most probable token
};

/// Compares both models on `text`, with the windows of perplexity(). Throws as perplexity() does,
/// and kInput if the vocabularies differ in size or encode the text differently.
Comparison compare(Model& model, Model& reference, std::string_view text, int32_t window,
                   const std::function<void(const Comparison&, size_t)>& progress = {});

}  // namespace veery
