#include "audio/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "audio/sound.h"
#include "base/error.h"

namespace veery {
namespace {

constexpr int kFrequencies = kMelWindow / 2 + 1;
constexpr float kLeast = -10;  // log10 of the smallest energy, 1e-10

struct Complex {
  double re = 0, im = 0;
  Complex operator+(Complex b) const { return {re + b.re, im + b.im}; }
  Complex operator*(Complex b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
};
using Signal = std::array<Complex, kMelWindow>;

// e^(-2 pi i k / 400) for k = 0 ... 399.
const Signal& roots() {
  static const Signal table = [] {
    Signal all;
    for (int k = 0; k < kMelWindow; ++k) {
      const double angle = -2 * std::numbers::pi * k / kMelWindow;
      all[static_cast<size_t>(k)] = {std::cos(angle), std::sin(angle)};
    }
    return all;
  }();
  return table;
}

// Mixed-radix discrete Fourier transform of 400 / stride elements at distance `stride`, by
// decimation in time (Cooley and Tukey, 1965). kRadix is the radix of this stage, kOthers those of
// the remaining ones.
template <int kRadix, int... kOthers>
void fourier(const Complex* in, int stride, Complex* out) {
  constexpr int kPart = (kOthers * ... * 1);
  const Signal& root = roots();
  for (int q = 0; q < kRadix; ++q) {
    if constexpr (sizeof...(kOthers) == 0)
      out[q] = in[q * stride];
    else
      fourier<kOthers...>(in + q * stride, stride * kRadix, out + q * kPart);
  }
  for (int u = 0; u < kPart; ++u) {
    std::array<Complex, kRadix> turned;
    for (int q = 0; q < kRadix; ++q)
      turned[static_cast<size_t>(q)] =
          out[u + q * kPart] * root[static_cast<size_t>(stride * u * q)];
    for (int j = 0; j < kRadix; ++j) {
      Complex sum = turned[0];
      for (int q = 1; q < kRadix; ++q)
        sum = sum + turned[static_cast<size_t>(q)] *
                        root[static_cast<size_t>(j * q % kRadix * (kMelWindow / kRadix))];
      out[u + j * kPart] = sum;
    }
  }
}

double to_mel(double hertz) {
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
double to_hertz(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp(std::log(6.4) / 27 * (mel - 15));
}

}  // namespace

std::vector<std::vector<double>> mel_filters(int bands) {
  std::vector<double> edges;
  const double most = to_mel(kSoundRate / 2.0);
  for (int i = 0; i < bands + 2; ++i) edges.push_back(to_hertz(most * i / (bands + 1)));
  std::vector<std::vector<double>> filters;
  for (size_t i = 0; i + 2 < edges.size(); ++i) {
    std::vector<double>& filter = filters.emplace_back();
    for (int k = 0; k < kFrequencies; ++k) {
      const double hertz = static_cast<double>(k) * kSoundRate / kMelWindow;
      const double rising = (hertz - edges[i]) / (edges[i + 1] - edges[i]);
      const double falling = (edges[i + 2] - hertz) / (edges[i + 2] - edges[i + 1]);
      filter.push_back(std::max(0.0, std::min(rising, falling)) * 2 / (edges[i + 2] - edges[i]));
    }
  }
  return filters;
}

MelSpectrogram::MelSpectrogram(int bands, ThreadPool& pool)
    : bands_(bands), pool_(pool), held_first_(-kMelWindow / 2), held_(kMelWindow / 2) {
  for (const std::vector<double>& weights : mel_filters(bands)) {
    Filter& filter = filters_.emplace_back();
    const auto is_set = [](double weight) { return weight > 0; };
    const auto first = std::ranges::find_if(weights, is_set);
    const auto last = std::find_if(weights.rbegin(), std::make_reverse_iterator(first), is_set);
    filter.first = static_cast<int>(first - weights.begin());
    filter.weights.assign(first, last.base());
  }
  for (int i = 0; i < kMelWindow; ++i)
    hann_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / kMelWindow));
}

// `samples` comes from a file header and may be wrong, so at most one day is reserved.
void MelSpectrogram::expect(int64_t samples) {
  constexpr int64_t kMost = int64_t{86400} * kMelFramesPerSecond;
  values_.reserve(
      static_cast<size_t>(std::clamp<int64_t>(samples / kMelStep + 1, 0, kMost) * bands_));
}

void MelSpectrogram::push(std::span<const float> samples) {
  held_.insert(held_.end(), samples.begin(), samples.end());
  samples_ += std::ssize(samples);
  take_frames();
}

void MelSpectrogram::finish(int64_t least_frames) {
  const int64_t whole = std::max(samples_, least_frames * kMelStep);
  held_.resize(held_.size() + static_cast<size_t>(whole - samples_));
  const int64_t wanted = whole / kMelStep;
  if (whole <= kMelWindow / 2)
    throw Error(ErrorKind::kBug, "a spectrogram of {} samples has no frame", whole);
  // Reflects the end, without repeating the last sample.
  const size_t end = held_.size();
  for (size_t i = 0; i < kMelWindow / 2; ++i) held_.push_back(held_[end - 2 - i]);
  take_frames();
  VEERY_CHECK(frames_ >= wanted);
  frames_ = wanted;
  values_.resize(static_cast<size_t>(frames_ * bands_));
  find_largest();
  held_ = {};
}

void MelSpectrogram::find_largest() {
  largest_ = kLeast;
  for (const float value : values_) largest_ = std::max(largest_, value);
}

void MelSpectrogram::keep(std::span<const FrameRange> ranges, int64_t least_frames) {
  int64_t kept = 0;
  for (const FrameRange& range : ranges) {
    VEERY_CHECK(kept <= range.first && range.first <= range.end && range.end <= frames_);
    std::copy(values_.begin() + range.first * bands_, values_.begin() + range.end * bands_,
              values_.begin() + kept * bands_);
    kept += range.end - range.first;
  }
  values_.resize(static_cast<size_t>(kept * bands_));
  frames_ = std::max(kept, least_frames);
  values_.resize(static_cast<size_t>(frames_ * bands_), kLeast);
  find_largest();
}

// Transforms all frames whose samples are complete.
void MelSpectrogram::take_frames() {
  constexpr int64_t kBefore = kMelWindow / 2;
  if (held_first_ < 0 && frames_ == 0) {
    if (std::ssize(held_) <= 2 * kBefore) return;
    for (size_t i = 0; i < kBefore; ++i) held_[i] = held_[2 * kBefore - i];
  }
  const int64_t first = frames_;
  const int64_t count = std::max<int64_t>((std::ssize(held_) - kMelWindow) / kMelStep + 1, 0);
  if (std::ssize(held_) < kMelWindow || count == 0) return;
  values_.resize(static_cast<size_t>((first + count) * bands_));
  pool_.parallel_for((count + 1) / 2, 16, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair)
      transform(first + 2 * pair, 2 * pair + 1 < count);
  });
  frames_ += count;
  held_first_ += count * kMelStep;
  held_.erase(held_.begin(), held_.begin() + count * kMelStep);
}

// Transforms one or two frames at once: the spectrum of a + bi is A + Bi, and spectra of real
// signals are symmetric.
void MelSpectrogram::transform(int64_t frame, bool two) {
  const float* samples = held_.data() + frame * kMelStep - (held_first_ + kMelWindow / 2);
  float* const out = values_.data() + frame * bands_;
  const int64_t needed = kMelWindow + (two ? kMelStep : 0);
  if (std::all_of(samples, samples + needed, [](float x) { return x == 0; })) {
    std::fill_n(out, (two ? 2 : 1) * bands_, kLeast);
    return;
  }
  Signal signal, spectrum;
  for (size_t i = 0; i < kMelWindow; ++i)
    signal[i] = {hann_[i] * samples[i], two ? hann_[i] * samples[i + kMelStep] : 0};
  fourier<4, 4, 5, 5>(signal.data(), 1, spectrum.data());
  std::array<std::array<double, kFrequencies>, 2> power;
  for (size_t k = 0; k < kFrequencies; ++k) {
    const Complex a = spectrum[k];
    const Complex b = spectrum[(kMelWindow - k) % kMelWindow];
    const auto half_square = [](double re, double im) { return (re * re + im * im) / 4; };
    power[0][k] = half_square(a.re + b.re, a.im - b.im);
    power[1][k] = half_square(a.im + b.im, b.re - a.re);
  }
  for (size_t which = 0; which < (two ? 2U : 1U); ++which)
    for (size_t band = 0; band < filters_.size(); ++band) {
      const Filter& filter = filters_[band];
      double sum = 0;
      for (size_t k = 0; k < filter.weights.size(); ++k)
        sum += filter.weights[k] * power[which][static_cast<size_t>(filter.first) + k];
      out[which * filters_.size() + band] = static_cast<float>(std::log10(std::max(sum, 1e-10)));
    }
}

void MelSpectrogram::window(int64_t first, int64_t count, std::span<float> out) const {
  VEERY_CHECK(first >= 0 && std::ssize(out) == count * bands_);
  const int64_t there = std::clamp<int64_t>(frames_ - first, 0, count) * bands_;
  const float* from = values_.data() + first * bands_;
  const float least = largest_ - 8;
  for (int64_t i = 0; i < there; ++i)
    out[static_cast<size_t>(i)] = (std::max(from[i], least) + 4) / 4;
  std::fill(out.begin() + there, out.end(), 0.0F);
}

float MelSpectrogram::level(int64_t frame) const {
  double sum = 0;
  for (int64_t i = 0; i < bands_; ++i)
    sum += std::pow(10.0, values_[static_cast<size_t>(frame * bands_ + i)]);
  return static_cast<float>(std::log10(sum / bands_));
}

}  // namespace veery
