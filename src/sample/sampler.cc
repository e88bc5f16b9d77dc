#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/common/softmax_mass.h"
#include "kernels/draw.h"
#include "sample/parameters.h"

namespace veery {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr size_t kLanes = 16;  // independent, so that the compiler can use vectors

// Returns the standard deviation of the finite logits.
float deviation(std::span<const float> logits) {
  double sum = 0, squares = 0, count = 0;
  for (const float x : logits)
    if (std::isfinite(x)) sum += x, squares += double{x} * x, ++count;
  if (count == 0) return 0;
  const double mean = sum / count;
  return static_cast<float>(std::sqrt(std::max(squares / count - mean * mean, 0.0)));
}

// Returns the largest logit; minus infinity if none is a number.
float largest(std::span<const float> logits) {
  float best[kLanes];
  std::fill(best, best + kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
  for (; i < logits.size(); ++i) best[0] = logits[i] > best[0] ? logits[i] : best[0];
  return *std::max_element(best, best + kLanes);
}

}  // namespace

int32_t argmax(std::span<const float> logits) {
  const auto found = std::find(logits.begin(), logits.end(), largest(logits));
  if (found == logits.end())
    throw Error(ErrorKind::kFormat, "all {} logits are NaN: the weights are damaged",
                logits.size());
  return static_cast<int32_t>(found - logits.begin());
}

double log_sum_exp(std::span<const float> logits) {
  const float best = logits[static_cast<size_t>(argmax(logits))];
  if (std::isinf(best)) return best;
  return best + std::log(softmax_mass(logits, best));
}

double divergence(std::span<const float> reference, std::span<const float> logits) {
  VEERY_CHECK(reference.size() == logits.size());
  const double mass = log_sum_exp(reference);
  const auto from = static_cast<float>(mass);
  const auto shift = static_cast<float>(mass - log_sum_exp(logits));
  std::array<float, 1024> chances, terms;
  double sums[4] = {};
  for (size_t begin = 0; begin < logits.size(); begin += terms.size()) {
    const size_t count = std::min(terms.size(), logits.size() - begin);
    const float* const right = reference.data() + begin;
    const float* const other = logits.data() + begin;
    for (size_t i = 0; i < count; ++i) chances[i] = clamp_exponent(right[i] - from);
    for (size_t i = 0; i < count; ++i) chances[i] = quick_exp(chances[i]);
    // Tokens of probability 0 in the reference add nothing, even if both logits are infinite.
    for (size_t i = 0; i < count; ++i)
      terms[i] = right[i] - from > -87.0F ? chances[i] * (right[i] - other[i] - shift) : 0.0F;
    std::fill(terms.begin() + static_cast<ptrdiff_t>(count), terms.end(), 0.0F);
    for (size_t i = 0; i < terms.size(); i += 4)
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] += terms[i + lane];
  }
  const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum < 0 ? 0 : sum;  // negative only by rounding; NaN stays NaN
}

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), random_(options.seed), bound_(2 * options.mirostat_tau) {
  check_sampling(options);
}

bool Sampler::penalizes() const {
  const bool any = options_.repeat_penalty != 1 || options_.presence_penalty != 0 ||
                   options_.frequency_penalty != 0;
  return any && options_.repeat_last_n != 0;
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  if (changes_logits()) logits = changed(logits, history);
  const int32_t best_id = argmax(logits);
  const float best = logits[static_cast<size_t>(best_id)];
  if (options_.temperature == 0 || std::isinf(best)) return best_id;
  if (options_.mirostat == 2) {
    apply_mirostat(logits, best);
    return draw();
  }
  select(logits, best);
  return draw_selected();
}

int32_t Sampler::draw_selected() {
  if (options_.typical_p < 1) apply_typical_p();
  if (options_.xtc_probability > 0) apply_xtc();
  return draw();
}

bool Sampler::takes_top() const {
  if (changes_logits() || options_.mirostat != 0 || options_.top_n_sigma > 0) return false;
  return options_.temperature > 0 && (has_top_k() || options_.top_p < 1 || options_.min_p > 0);
}

std::optional<int32_t> Sampler::sample(const TopLogits& top) {
  VEERY_CHECK(takes_top() && !top.values.empty());
  const float best = top.values.front();
  if (std::isinf(best)) return {};  // infinite, or all are NaN: argmax() reports that
  candidates_.clear();
  const float least = least_of(best);
  size_t count = 0;
  for (; count < top.values.size() && top.indices[count] >= 0; ++count) {
    if (top.values[count] < least || top.values[count] == -kInfinity) break;
    candidates_.push_back({top.values[count], top.indices[count]});
  }
  // Whether the candidates so far are all that the filters keep.
  bool all = count < top.values.size();
  if (has_top_k() && candidates_.size() >= static_cast<size_t>(options_.top_k)) {
    candidates_.resize(static_cast<size_t>(options_.top_k));
    all = true;
  }
  if (options_.top_p < 1) {
    if (!apply_top_p(options_.top_p * double{top.mass}, best) && !all) return {};
  } else {
    if (!all) return {};
    // Restores the order that select() produces.
    if (!has_top_k()) std::ranges::sort(candidates_, {}, &Candidate::id);
  }
  return draw_selected();
}

bool Sampler::chains() const {
  if (options_.mirostat != 0 || options_.top_n_sigma > 0 || options_.dry_multiplier > 0 ||
      options_.typical_p < 1 || options_.xtc_probability > 0 || options_.dynatemp_range > 0 ||
      options_.bias.size() > ChainRow::kMostBiases || options_.repeat_penalty < 1)
    return false;
  return options_.temperature == 0 || has_top_k() || options_.top_p < 1 || options_.min_p > 0;
}

std::optional<ChainRow> Sampler::chain_row(std::span<const int32_t> history, int32_t most) const {
  if (!chains()) return {};
  ChainRow row{
      .most = most,
      .settings = {options_.temperature, options_.top_p,
                   options_.min_p > 0 ? std::log(options_.min_p) : -kInfinity, options_.top_k},
      .seed = options_.seed,
      .position = random_.position(),
      .penalties = penalties(),
      .biases = options_.bias};
  if (!penalizes()) return row;
  const size_t all = history.size() + static_cast<size_t>(most);
  const size_t window =
      options_.repeat_last_n > 0 ? std::min(static_cast<size_t>(options_.repeat_last_n), all) : all;
  if (window > ChainRow::kMostRecent) return {};
  row.window = static_cast<int32_t>(window);
  row.recent = history.last(std::min(history.size(), window));
  return row;
}

std::span<const float> Sampler::changed(std::span<const float> logits,
                                        std::span<const int32_t> history) {
  penalized_.assign(logits.begin(), logits.end());
  for (const SamplerOptions::Bias& bias : options_.bias)
    if (bias.id >= 0 && static_cast<size_t>(bias.id) < penalized_.size())
      penalized_[static_cast<size_t>(bias.id)] += bias.value;
  if (penalizes() && !history.empty()) penalize(history);
  if (options_.dry_multiplier > 0) apply_dry(history);
  return penalized_;
}

void Sampler::penalize(std::span<const int32_t> history) {
  if (options_.repeat_last_n > 0)
    history = history.last(std::min(history.size(), static_cast<size_t>(options_.repeat_last_n)));
  recent_.assign(history.begin(), history.end());
  std::sort(recent_.begin(), recent_.end());
  for (size_t begin = 0, end = 0; begin < recent_.size(); begin = end) {
    const int32_t id = recent_[begin];
    while (end < recent_.size() && recent_[end] == id) ++end;
    if (id < 0 || static_cast<size_t>(id) >= penalized_.size()) continue;
    float& logit = penalized_[static_cast<size_t>(id)];
    // penalized() ignores penalties below 1.
    const float repeat = options_.repeat_penalty;
    if (repeat < 1) logit = logit > 0 ? logit / repeat : logit * repeat;
    logit = penalized(logit, penalties(), static_cast<int32_t>(end - begin));
  }
}

// DRY. The length of the repetition that ends at each position equals the Z function of the
// reversed text, computed in linear time.
void Sampler::apply_dry(std::span<const int32_t> history) {
  if (options_.dry_last_n >= 0)
    history = history.last(std::min(history.size(), static_cast<size_t>(options_.dry_last_n)));
  const auto breaks = [&](int32_t id) {
    const auto& list = options_.dry_breakers;
    return list && id >= 0 && static_cast<size_t>(id) < list->size() &&
           (*list)[static_cast<size_t>(id)];
  };
  const auto n = static_cast<int32_t>(history.size());
  const auto back = [&](int32_t i) { return history[static_cast<size_t>(n - 1 - i)]; };
  int32_t whole = 0;  // the longest possible repetition: back to the last breaker
  while (whole < n && !breaks(back(whole))) ++whole;
  lengths_.assign(static_cast<size_t>(n), 0);
  for (int32_t i = 1, left = 0, right = 0; i < n; ++i) {
    int32_t& length = lengths_[static_cast<size_t>(i)];
    if (i < right) length = std::min(right - i, lengths_[static_cast<size_t>(i - left)]);
    while (i + length < n && back(length) == back(i + length)) ++length;
    if (i + length > right) left = i, right = i + length;
  }
  // recent_[id]: length of the longest repetition that token `id` would continue.
  recent_.assign(penalized_.size(), 0);
  for (int32_t i = 1; i < n; ++i) {
    const int32_t length = std::min(lengths_[static_cast<size_t>(i)], whole);
    const int32_t next = back(i - 1);
    if (length < options_.dry_allowed_length || next < 0 ||
        static_cast<size_t>(next) >= recent_.size())
      continue;
    int32_t& longest = recent_[static_cast<size_t>(next)];
    longest = std::max(longest, length);
  }
  for (size_t id = 0; id < recent_.size(); ++id)
    if (recent_[id] > 0)
      penalized_[id] -= std::min(
          1e6F, options_.dry_multiplier *
                    std::pow(options_.dry_base,
                             static_cast<float>(recent_[id] - options_.dry_allowed_length)));
}

float Sampler::least_of(float best) const {
  return options_.min_p > 0 ? best + std::log(options_.min_p) : -kInfinity;
}

// Every filter keeps a prefix of the tokens sorted by probability, and top-p compares with the mass
// of all tokens, so the cheap filters can run first: the result is that of top-p, min-p, top-k.
void Sampler::select(std::span<const float> logits, float best) {
  float least = least_of(best);
  if (options_.top_n_sigma > 0)
    least = std::max(least, best - options_.top_n_sigma * deviation(logits));
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= least && logits[i] > -kInfinity)
      candidates_.push_back({logits[i], static_cast<int32_t>(i)});

  const auto count = static_cast<size_t>(std::max(options_.top_k, 0));
  if (has_top_k() && candidates_.size() > count) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count),
                     candidates_.end(), before);
    candidates_.resize(count);
  }
  if (options_.top_p < 1) {
    // The same computation as in the op top_k.
    const auto mass = static_cast<float>(softmax_mass(logits, best));
    apply_top_p(options_.top_p * double{mass}, best);
  } else if (has_top_k()) {
    std::sort(candidates_.begin(), candidates_.end(), before);
  }
}

// Sorts growing pieces from the front until `mass` is reached, rarely more than the first piece.
// Returns false if all candidates together do not reach it.
bool Sampler::apply_top_p(double mass, float best) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t piece = 128; sorted < candidates_.size(); piece *= 4) {
    const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(sorted);
    const size_t end = std::min(candidates_.size(), sorted + piece);
    const auto last = candidates_.begin() + static_cast<ptrdiff_t>(end);
    if (last != candidates_.end()) std::nth_element(begin, last, candidates_.end(), before);
    std::sort(begin, last, before);
    for (; sorted < end; ++sorted) {
      sum += mass_of(candidates_[sorted].logit, best);
      if (sum < mass) continue;
      candidates_.resize(sorted + 1);
      return true;
    }
  }
  return false;
}

// Keeps the tokens whose surprise is closest to the entropy, most probable first.
void Sampler::apply_typical_p() {
  std::sort(candidates_.begin(), candidates_.end(), before);
  double total = 0, entropy = 0;
  const double best = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += exp_below_zero(c.logit - best);
  const auto surprise = [&](const Candidate& c) { return std::log(total) - (c.logit - best); };
  for (const Candidate& c : candidates_) {
    const double p = exp_below_zero(c.logit - best) / total;
    if (p > 0) entropy += p * surprise(c);
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [&](const Candidate& a, const Candidate& b) {
                     return std::abs(surprise(a) - entropy) < std::abs(surprise(b) - entropy);
                   });
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates_.size() && sum < options_.typical_p)
    sum += exp_below_zero(candidates_[kept++].logit - best) / total;
  candidates_.resize(std::max<size_t>(kept, 1));
  std::sort(candidates_.begin(), candidates_.end(), before);
}

// XTC: draws whether to apply it, then drops all tokens above the threshold except the least
// probable of them.
void Sampler::apply_xtc() {
  if (random_.uniform() >= options_.xtc_probability) return;
  std::sort(candidates_.begin(), candidates_.end(), before);
  double total = 0;
  const double best = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += exp_below_zero(c.logit - best);
  size_t above = 0;
  while (above < candidates_.size() &&
         exp_below_zero(candidates_[above].logit - best) / total >= options_.xtc_threshold)
    ++above;
  if (above > 1)
    candidates_.erase(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(above) - 1);
}

// Mirostat 2: keeps the tokens whose surprise is below the bound, at least one.
void Sampler::apply_mirostat(std::span<const float> logits, float best) {
  const double total = std::log2(softmax_mass(logits, best));
  constexpr double kLog2e = 1.4426950408889634;
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double bits = total - (double{logits[i]} - best) * kLog2e;
    if (bits <= bound_ || logits[i] == best)
      candidates_.push_back({logits[i], static_cast<int32_t>(i)});
  }
  std::sort(candidates_.begin(), candidates_.end(), before);
}

float Sampler::temperature() {
  if (options_.dynatemp_range <= 0 || candidates_.size() < 2) return options_.temperature;
  const double best = candidates_.front().logit;
  double total = 0, entropy = 0;
  for (const Candidate& c : candidates_) total += exp_below_zero(c.logit - best);
  for (const Candidate& c : candidates_) {
    const double p = exp_below_zero(c.logit - best) / total;
    if (p > 0) entropy -= p * std::log(p);
  }
  const double share = entropy / std::log(static_cast<double>(candidates_.size()));
  const float low = std::max(0.0F, options_.temperature - options_.dynatemp_range);
  const float high = options_.temperature + options_.dynatemp_range;
  return low + (high - low) * static_cast<float>(std::pow(share, options_.dynatemp_exponent));
}

int32_t Sampler::draw() {
  if (options_.dynatemp_range > 0) std::sort(candidates_.begin(), candidates_.end(), before);
  double best = -std::numeric_limits<double>::infinity();
  for (const Candidate& c : candidates_) best = std::max(best, double{c.logit});
  const float temperature = this->temperature();
  if (temperature <= 0) return candidates_.front().id;
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i)
    weights_[i] = draw_weight(candidates_[i].logit, best, temperature);
  const auto [index, total] =
      drawn(weights_.data(), static_cast<int32_t>(weights_.size()), random_.next());
  const auto chosen = static_cast<size_t>(index);
  if (options_.mirostat == 2) {
    const double surprise = -std::log2(weights_[chosen] / total);
    bound_ -= options_.mirostat_eta * (surprise - options_.mirostat_tau);
  }
  return candidates_[chosen].id;
}

}  // namespace veery
