// sampler.h: from logits to the next token: repeat penalty, filters, temperature and the draw.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace veery {

/// The filters act in the order in which they stand here.
struct SamplerOptions {
  float repeat_penalty =
      1;  ///< > 1: logits of recent tokens are divided (multiplied if negative) by it
  int32_t repeat_last_n = 64;  ///< tokens that count as recent; -1: all, 0: none
  float top_p = 0.95F;         ///< the fewest most probable tokens that together reach this; 1: off
  float min_p = 0.05F;         ///< tokens at least this probable relative to the best; 0: off
  int32_t top_k = 40;          ///< the most probable tokens; 0 or less: off
  float temperature = 0.8F;    ///< 0: always the most probable token, the filters do not matter
  uint64_t seed = 0;
};

/// The index of the largest logit, the lowest among equals; NaN is never the largest. Throws
/// kFormat if no logit is a number.
int32_t argmax(std::span<const float> logits);

/// log(sum(exp(logits))), summed in double, with a relative error of the sum below 4e-7.
double log_sum_exp(std::span<const float> logits);

/// The Kullback-Leibler divergence of softmax(logits) from softmax(reference), in nats: what a
/// token of the reference costs more under `logits`. 0 for equal ones.
double divergence(std::span<const float> reference, std::span<const float> logits);

/// Draws tokens. The same options and logits give the same tokens. Keeps its buffers: no allocation
/// after the first token of a vocabulary.
class Sampler {
 public:
  /// Throws kInput naming an option that is out of range.
  explicit Sampler(const SamplerOptions& options);

  /// The next token after `history` (prompt and answer, oldest first). Draws one random number,
  /// none if temperature is 0.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history);

  /// Nothing but the largest logit matters: the model may choose tokens itself.
  bool greedy() const { return options_.temperature == 0 && !penalizes(); }
  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  bool penalizes() const { return options_.repeat_penalty > 1 && options_.repeat_last_n != 0; }
  std::span<const float> penalize(std::span<const float> logits, std::span<const int32_t> history);
  void select(std::span<const float> logits, float best);
  void cut_to_mass(double mass, float best);
  int32_t draw(float best);

  SamplerOptions options_;
  Random random_;
  std::vector<float> penalized_;
  std::vector<int32_t> recent_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace veery
