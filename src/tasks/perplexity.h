// perplexity.h: how well a model predicts a text, and how far from what another model predicts.
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
  int64_t tokens = 0;                ///< that were scored
  std::vector<double> window_means;  ///< mean negative log-likelihood of each window
};

/// As llama.cpp defines it: windows of `window` tokens side by side, a shorter rest is dropped;
/// each begins an empty cache, its first token replaced by BOS if the model wants one; the tokens
/// after the middle are scored. `ids` is the whole text, BOS included. `progress` is called with
/// windows done and in all. Throws kInput if there is no whole window, kLimit if the reader's
/// context is shorter than one.
Perplexity perplexity(const Model& model, SequenceReader& reader, std::span<const int32_t> ids,
                      int32_t window,
                      const std::function<void(const Perplexity&, size_t)>& progress = {});

/// A mean and its standard error.
struct Estimate {
  double value = 0, error = 0;
};

/// The same windows and tokens, predicted by a model and by one whose predictions count as right.
struct Comparison {
  Perplexity model, reference;
  Estimate ratio;       ///< of the perplexities, the model's over the reference's
  Estimate divergence;  ///< Kullback-Leibler, from the reference's predictions, in nats
  Estimate same_best;   ///< share of positions with the same most probable token
};

/// Feeds `text` to both, as perplexity() does. Throws as that; kInput if their vocabularies differ
/// in size or the text becomes other tokens.
Comparison compare(Model& model, Model& reference, std::string_view text, int32_t window,
                   const std::function<void(const Comparison&, size_t)>& progress = {});

}  // namespace veery
