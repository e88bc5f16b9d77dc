// sampler.h: samples the next token from logits: penalties, filters, temperature and the draw.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "kernels/chain_row.h"

namespace veery {

/// Options of a sampler. Penalties and filters apply in the order of these members.
struct SamplerOptions {
  using Bias = TokenBias;
  std::vector<Bias> bias;  ///< added to the logits
  /// Repetition penalty: divides the logits of recent tokens (multiplies negative ones). Above 1
  /// makes them less likely, below 1 more likely; 1: off.
  float repeat_penalty = 1;
  float frequency_penalty = 0;  ///< subtracted once for each recent occurrence of the token
  float presence_penalty = 0;   ///< subtracted once if the token is among the recent ones
  int32_t repeat_last_n = 64;   ///< number of recent tokens to consider; -1: all, 0: none
  /// DRY: subtracts multiplier * base^(length - allowed length) from the logit of a token that
  /// would continue a repetition, where `length` is the length of the repetition so far; 0: off.
  /// (p-e-w, text-generation-webui, pull request 5677.)
  float dry_multiplier = 0, dry_base = 1.75F;
  int32_t dry_allowed_length = 2;
  int32_t dry_last_n = -1;  ///< number of recent tokens to search; -1: all
  /// DRY sequence breakers, at which repetitions end: a flag for each token id; nullptr: none.
  std::shared_ptr<const std::vector<bool>> dry_breakers;
  /// Keeps logits within N standard deviations of the best (arXiv:2411.07641); 0: off.
  float top_n_sigma = 0;
  /// Keeps the smallest set of most probable tokens with this total probability; 1: off.
  float top_p = 0.95F;
  /// Keeps tokens with at least this fraction of the best token's probability; 0: off.
  float min_p = 0.05F;
  int32_t top_k = 40;  ///< keeps the k most probable tokens; 0 or less: off
  /// Locally typical sampling (arXiv:2202.00666): keeps the tokens whose surprise is closest to the
  /// entropy, up to this total probability; 1: off.
  float typical_p = 1;
  /// XTC: with this probability, drops all tokens above the threshold except the least probable of
  /// them.
  float xtc_probability = 0, xtc_threshold = 0.1F;
  float temperature = 0.8F;  ///< 0: greedy, ignoring the filters
  /// Dynamic temperature: temperature - range to temperature + range, interpolated by (entropy of
  /// the remaining tokens / maximum entropy)^exponent; 0: fixed temperature.
  float dynatemp_range = 0, dynatemp_exponent = 1;
  /// 2: mirostat 2 (arXiv:2007.14966) replaces the filters. It keeps tokens less surprising than a
  /// bound, which follows the observed surprise towards `tau` bits with learning rate `eta`; 0:
  /// off.
  int32_t mirostat = 0;
  float mirostat_tau = 5, mirostat_eta = 0.1F;
  uint64_t seed = 0;
};

/// Largest magnitude of SamplerOptions::Bias::value.
inline constexpr float kMostBias = 1e6F;

/// The index of the largest logit, the lowest among equals; NaN is never the largest. Throws
/// kFormat if no logit is a number.
int32_t argmax(std::span<const float> logits);

/// Returns log(sum(exp(logits))), accumulated in double; relative error of the sum below 4e-7.
double log_sum_exp(std::span<const float> logits);

/// Returns the Kullback-Leibler divergence KL(softmax(reference) || softmax(logits)) in nats; 0 if
/// they are equal.
double divergence(std::span<const float> reference, std::span<const float> logits);

/// The top-k logits of a row, as computed by the op top_k.
struct TopLogits {
  std::span<const float> values;     ///< descending
  std::span<const int32_t> indices;  ///< -1: the row has no more entries
  float mass = 0;
};

/// Samples tokens. The same options and logits give the same tokens. Reuses its buffers: no
/// allocation after the first token.
class Sampler {
 public:
  /// Throws kInput naming a parameter that is out of range.
  explicit Sampler(const SamplerOptions& options);

  /// Returns the next token after `history` (prompt and generated tokens, oldest first). Draws one
  /// random number, none if temperature is 0.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history);

  /// Returns whether sample(TopLogits) may succeed with these options.
  bool takes_top() const;
  /// Samples from the top-k logits the token that sample() would draw from all logits. Returns
  /// nullopt, without drawing a random number, if the filters keep more tokens than `top` holds.
  std::optional<int32_t> sample(const TopLogits& top);

  /// Returns the parameters with which a device samples the next `most` tokens after `history` as
  /// sample() would; nullopt if a filter is only implemented on the host or a list is too long for
  /// the device. Refers to `history` and the options.
  std::optional<ChainRow> chain_row(std::span<const int32_t> history, int32_t most) const;
  /// Advances the random stream after the device has sampled a token.
  void count_draw() {
    if (options_.temperature > 0) random_.next();
  }

  /// Returns whether only the largest logit matters, so that the model can compute the argmax
  /// itself.
  bool greedy() const { return options_.temperature == 0 && !changes_logits(); }
  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  bool penalizes() const;
  bool changes_logits() const {
    return penalizes() || !options_.bias.empty() || options_.dry_multiplier > 0;
  }
  Penalties penalties() const {
    return {options_.repeat_penalty, options_.frequency_penalty, options_.presence_penalty};
  }
  std::span<const float> changed(std::span<const float> logits, std::span<const int32_t> history);
  void penalize(std::span<const int32_t> history);
  void apply_dry(std::span<const int32_t> history);
  bool chains() const;
  bool has_top_k() const { return options_.top_k > 0; }
  float least_of(float best) const;
  void select(std::span<const float> logits, float best);
  bool apply_top_p(double mass, float best);
  void apply_typical_p();
  void apply_xtc();
  void apply_mirostat(std::span<const float> logits, float best);
  float temperature();
  int32_t draw();
  int32_t draw_selected();

  SamplerOptions options_;
  Random random_;
  std::vector<float> penalized_;
  std::vector<int32_t> recent_;
  std::vector<int32_t> lengths_;
  double bound_ = 0;  ///< bound of mirostat, in bits
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace veery
