// sampler.h: from logits to the next token: repeat penalty, filters, temperature and the draw.
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

/// The penalties and filters act in the order in which they stand here.
struct SamplerOptions {
  using Bias = TokenBias;
  std::vector<Bias> bias;  ///< added to logits
  /// Logits of recent tokens are divided by it (multiplied if negative): above 1 they become less
  /// likely, below 1 more likely; 1: off.
  float repeat_penalty = 1;
  float frequency_penalty = 0;  ///< taken off for each time that a token is among the recent ones
  float presence_penalty = 0;   ///< taken off if it is among them at all
  int32_t repeat_last_n = 64;   ///< tokens that count as recent; -1: all, 0: none
  /// DRY: a token that would go on repeating what came before loses multiplier base^(length -
  /// allowed length), the length that of the repetition so far; 0: off. (p-e-w, text-generation-
  /// webui, pull request 5677.)
  float dry_multiplier = 0, dry_base = 1.75F;
  int32_t dry_allowed_length = 2;
  int32_t dry_last_n = -1;  ///< tokens that are looked at; -1: all
  /// Repetitions end at these tokens: a truth for each id; none: nowhere.
  std::shared_ptr<const std::vector<bool>> dry_breakers;
  float top_n_sigma =
      0;                ///< logits within so many deviations of the best (arXiv:2411.07641); 0: off
  float top_p = 0.95F;  ///< the fewest most probable tokens that together reach this; 1: off
  float min_p = 0.05F;  ///< tokens at least this probable relative to the best; 0: off
  int32_t top_k = 40;   ///< the most probable tokens; 0 or less: off
  /// Tokens whose surprise is nearest to the entropy, until they reach this together (locally
  /// typical, arXiv:2202.00666); 1: off.
  float typical_p = 1;
  /// XTC: with this probability all tokens above the threshold but the least probable of them go.
  float xtc_probability = 0, xtc_threshold = 0.1F;
  float temperature = 0.8F;  ///< 0: always the most probable token, the filters do not matter
  /// The temperature is between temperature - range and + range, by the entropy of what is left
  /// over the greatest there could be, to the power of the exponent; 0: it is fixed.
  float dynatemp_range = 0, dynatemp_exponent = 1;
  /// 2: in place of the filters, tokens less surprising than a bound that follows what is chosen
  /// towards tau bits, by steps of eta (mirostat 2, arXiv:2007.14966); 0: off.
  int32_t mirostat = 0;
  float mirostat_tau = 5, mirostat_eta = 0.1F;
  uint64_t seed = 0;
};

/// Largest magnitude of SamplerOptions::Bias::value.
inline constexpr float kMostBias = 1e6F;

/// The index of the largest logit, the lowest among equals; NaN is never the largest. Throws
/// kFormat if no logit is a number.
int32_t argmax(std::span<const float> logits);

/// log(sum(exp(logits))), summed in double, with a relative error of the sum below 4e-7.
double log_sum_exp(std::span<const float> logits);

/// The Kullback-Leibler divergence of softmax(logits) from softmax(reference), in nats: what a
/// token of the reference costs more under `logits`. 0 for equal ones.
double divergence(std::span<const float> reference, std::span<const float> logits);

/// The most probable tokens of a row of logits, as the op top_k has them.
struct TopLogits {
  std::span<const float> values;     ///< the largest first
  std::span<const int32_t> indices;  ///< -1: the row has no more
  float mass = 0;
};

/// Draws tokens. The same options and logits give the same tokens. Keeps its buffers: no allocation
/// after the first token of a vocabulary.
class Sampler {
 public:
  /// Throws kInput naming a parameter that is out of range.
  explicit Sampler(const SamplerOptions& options);

  /// The next token after `history` (prompt and answer, oldest first). Draws one random number,
  /// none if temperature is 0.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history);

  /// Whether sample() of the most probable tokens may do.
  bool takes_top() const;
  /// The token that sample() draws from all logits; nothing, and nothing is drawn, where those that
  /// the filters leave are more than are given.
  std::optional<int32_t> sample(const TopLogits& top);

  /// What a device needs to draw the next tokens after `history` as sample() would, `most` of them;
  /// nothing where it takes filters that only sample() has, or lists that are too long. Refers to
  /// `history` and the options.
  std::optional<ChainRow> chain_row(std::span<const int32_t> history, int32_t most) const;
  /// A device has drawn a token.
  void count_draw() {
    if (options_.temperature > 0) random_.next();
  }

  /// Nothing but the largest logit matters: the model may choose tokens itself.
  bool greedy() const { return options_.temperature == 0 && !changes(); }
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
  bool changes() const {
    return penalizes() || !options_.bias.empty() || options_.dry_multiplier > 0;
  }
  Penalties penalties() const {
    return {options_.repeat_penalty, options_.frequency_penalty, options_.presence_penalty};
  }
  std::span<const float> changed(std::span<const float> logits, std::span<const int32_t> history);
  void penalize(std::span<const int32_t> history);
  void penalize_repetitions(std::span<const int32_t> history);
  bool chains() const;
  bool limited() const { return options_.top_k > 0; }
  float least_of(float best) const;
  void select(std::span<const float> logits, float best);
  bool cut_to_mass(double mass, float best);
  void keep_typical();
  void exclude_top_choices();
  void follow_surprise(std::span<const float> logits, float best);
  float temperature();
  int32_t draw();
  int32_t draw_selected();

  SamplerOptions options_;
  Random random_;
  std::vector<float> penalized_;
  std::vector<int32_t> recent_;
  std::vector<int32_t> lengths_;
  double bound_ = 0;  ///< of mirostat, in bits
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace veery
