#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace veery {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check_range(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high))
    throw Error(ErrorKind::kInput, "{} is {}, expected {} to {}", name, value, low, high);
}

constexpr size_t kLanes = 16;  // independent sums, so that the compiler can use vectors

// What quick_exp takes; below it, and for NaN, exp gives a number that no sum notices.
inline float clamp_exponent(float x) { return x > -87.0F ? x : -87.0F; }

// exp(x) for -87 <= x <= 0 to a relative 4e-7, without a branch.
inline float quick_exp(float x) {
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  // x - n log 2, with log 2 in two parts so that the product with the first is exact. Within 0.35:
  // six terms of the series are enough.
  const float f = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  const float series =
      1 + f * (1 + f * (1.0F / 2 + f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 + f / 720)))));
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return series * std::bit_cast<float>(exponent);
}

// The sum of exp(logit - best). In steps a piece, so that each has a form that compilers make
// vectors of.
double relative_mass(std::span<const float> logits, float best) {
  std::array<float, 1024> terms;
  double sums[4] = {};
  for (size_t begin = 0; begin < logits.size(); begin += terms.size()) {
    const size_t count = std::min(terms.size(), logits.size() - begin);
    const float* const from = logits.data() + begin;
    for (size_t i = 0; i < count; ++i) terms[i] = clamp_exponent(from[i] - best);
    for (size_t i = 0; i < count; ++i) terms[i] = quick_exp(terms[i]);
    std::fill(terms.begin() + static_cast<ptrdiff_t>(count), terms.end(), 0.0F);
    for (size_t i = 0; i < terms.size(); i += 4)
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] += terms[i + lane];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The largest number; minus infinity if there is none.
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
    throw Error(ErrorKind::kFormat, "none of the {} logits is a number: the weights are damaged",
                logits.size());
  return static_cast<int32_t>(found - logits.begin());
}

double log_sum_exp(std::span<const float> logits) {
  const float best = logits[static_cast<size_t>(argmax(logits))];
  if (std::isinf(best)) return best;
  return best + std::log(relative_mass(logits, best));
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
    // What the reference never chooses counts nothing, also where both logits are infinite.
    for (size_t i = 0; i < count; ++i)
      terms[i] = right[i] - from > -87.0F ? chances[i] * (right[i] - other[i] - shift) : 0.0F;
    std::fill(terms.begin() + static_cast<ptrdiff_t>(count), terms.end(), 0.0F);
    for (size_t i = 0; i < terms.size(); i += 4)
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] += terms[i + lane];
  }
  const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum < 0 ? 0 : sum;  // by rounding; what is no number stays that
}

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  check_range("temperature", options.temperature, 0, kLargest);
  check_range("top_p", options.top_p, 0, 1);
  check_range("min_p", options.min_p, 0, 1);
  check_range("repeat_penalty", options.repeat_penalty, 0, kLargest);
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  if (penalizes() && !history.empty()) logits = penalize(logits, history);
  const int32_t best_id = argmax(logits);
  const float best = logits[static_cast<size_t>(best_id)];
  if (options_.temperature == 0 || std::isinf(best)) return best_id;
  select(logits, best);
  return draw(best);
}

std::span<const float> Sampler::penalize(std::span<const float> logits,
                                         std::span<const int32_t> history) {
  if (options_.repeat_last_n > 0)
    history = history.last(std::min(history.size(), static_cast<size_t>(options_.repeat_last_n)));
  recent_.assign(history.begin(), history.end());
  std::sort(recent_.begin(), recent_.end());
  recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
  penalized_.assign(logits.begin(), logits.end());
  for (int32_t id : recent_) {
    if (id < 0 || static_cast<size_t>(id) >= penalized_.size()) continue;
    float& logit = penalized_[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
  return penalized_;
}

// Every filter keeps a run of the most probable tokens, and the mass that top-p compares with is
// that of all tokens, so the cheap cuts can come first: the result is that of top-p, min-p, top-k.
void Sampler::select(std::span<const float> logits, float best) {
  const float least = options_.min_p > 0 ? best + std::log(options_.min_p) : -kInfinity;
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= least && logits[i] > -kInfinity)
      candidates_.push_back({logits[i], static_cast<int32_t>(i)});

  const bool limited = options_.top_k > 0;
  const auto count = static_cast<size_t>(std::max(options_.top_k, 0));
  if (limited && candidates_.size() > count) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count),
                     candidates_.end(), before);
    candidates_.resize(count);
  }
  if (options_.top_p < 1) {
    cut_to_mass(options_.top_p * relative_mass(logits, best), best);
  } else if (limited) {
    std::sort(candidates_.begin(), candidates_.end(), before);
  }
}

// Sorts from the front in growing pieces until `mass` is reached: rarely more than the first.
void Sampler::cut_to_mass(double mass, float best) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t piece = 128; sorted < candidates_.size(); piece *= 4) {
    const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(sorted);
    const size_t end = std::min(candidates_.size(), sorted + piece);
    const auto last = candidates_.begin() + static_cast<ptrdiff_t>(end);
    if (last != candidates_.end()) std::nth_element(begin, last, candidates_.end(), before);
    std::sort(begin, last, before);
    for (; sorted < end; ++sorted) {
      sum += std::exp(static_cast<double>(candidates_[sorted].logit) - best);
      if (sum < mass) continue;
      candidates_.resize(sorted + 1);
      return;
    }
  }
}

int32_t Sampler::draw(float best) {
  weights_.resize(candidates_.size());
  double total = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    weights_[i] =
        std::exp((static_cast<double>(candidates_[i].logit) - best) / options_.temperature);
    total += weights_[i];
  }
  double rest = (random_.next() + 0.5) * 0x1p-32 * total;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    rest -= weights_[i];
    if (rest < 0) return candidates_[i].id;
  }
  return candidates_.front().id;
}

}  // namespace veery
