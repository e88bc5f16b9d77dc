#include "dtype/fit_codes.h"

#include <algorithm>
#include <cmath>

#include "dtype/half.h"

namespace veery {
namespace {

constexpr int kSub = 32;

float reciprocal(float scale) { return std::fabs(scale) < 1e-30F ? 0.0F : 1.0F / scale; }

// The nearest value of each x * inverse. Steps over the midpoints, so that it vectorises.
void nearest_values(std::span<const float> x, float inverse, const Book& book, float* values) {
  for (size_t i = 0; i < x.size(); ++i) values[i] = book[0];
  for (size_t k = 1; k < book.size(); ++k) {
    const float middle = 0.5F * (book[k - 1] + book[k]);
    const float step = book[k] - book[k - 1];
    for (size_t i = 0; i < x.size(); ++i) values[i] += x[i] * inverse > middle ? step : 0.0F;
  }
}

struct Sums {
  double qq = 0, xq = 0;
};

Sums sums_of(std::span<const float> x, const float* values) {
  float qq[4] = {}, xq[4] = {};
  for (size_t i = 0; i < x.size(); i += 4)
    for (size_t k = 0; k < 4; ++k) {
      qq[k] += values[i + k] * values[i + k];
      xq[k] += values[i + k] * x[i + k];
    }
  const auto total = [](const float* s) { return double{s[0]} + s[1] + s[2] + s[3]; };
  return {total(qq), total(xq)};
}

// The squared error of scale * nearest value, less the sum of x^2.
double excess(std::span<const float> x, float scale, const Book& book) {
  std::array<float, kSub> values;
  nearest_values(x, reciprocal(scale), book, values.data());
  const Sums s = sums_of(x, values.data());
  return double{scale} * (double{scale} * s.qq - 2 * s.xq);
}

}  // namespace

void quantize_to_book(std::span<const float> x, float scale, const Book& book, int8_t* codes) {
  const float inverse = reciprocal(scale);
  for (size_t i = 0; i < x.size(); ++i) {
    int code = 0;
    for (size_t k = 1; k < book.size(); ++k)
      code += x[i] * inverse > 0.5F * (book[k - 1] + book[k]) ? 1 : 0;
    codes[i] = static_cast<int8_t>(code);
  }
}

float fit_book_scale(std::span<const float> x, const Book& book) {
  float extreme = 0;
  for (const float value : x)
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  std::array<float, kSub> values;
  float best_scale = 0;
  double best = -1;
  const auto consider = [&](float inverse) {
    nearest_values(x, inverse, book, values.data());
    const Sums s = sums_of(x, values.data());
    const double gain = s.qq > 0 ? s.xq * s.xq / s.qq : 0;  // the error is sum(x^2) - gain
    if (gain <= best) return false;
    best = gain;
    best_scale = static_cast<float>(s.xq / s.qq);
    return true;
  };
  // The extreme element goes near either end of the book.
  constexpr int kSteps = 16;
  for (const float end : {book.front(), book.back()})
    for (int k = 0; k <= kSteps; ++k)
      consider(end * (0.8F + 0.45F * static_cast<float>(k) / kSteps) / extreme);
  for (int k = 0; k < 4 && best_scale != 0 && consider(1 / best_scale); ++k) {
  }
  return best_scale;
}

namespace {

constexpr int kLeast = -32;
constexpr int kMost = 31;

class BookFit {
 public:
  BookFit(std::span<const float> x, const Book& book, SuperBlock& block)
      : x_(x), book_(book), block_(block) {}

  void run() {
    start();
    if (overflowed()) return;
    double error = total();
    for (int round = 0; round < 3; ++round) {
      const SuperBlock before = block_;
      improve_scales();
      solve();
      const double now = overflowed() ? error : total();
      if (now >= error) {
        block_ = before;
        break;
      }
      error = now;
    }
    for (int j = 0; j < 8; ++j)
      quantize_to_book(part(j), scale(block_.scales[j]), book_, block_.codes + kSub * j);
  }

 private:
  std::span<const float> part(int j) const {
    return x_.subspan(static_cast<size_t>(kSub * j), kSub);
  }
  float scale(int integer) const { return f16_to_f32(block_.d) * static_cast<float>(integer); }
  bool overflowed() const { return (block_.d & 0x7FFFU) >= 0x7C00U; }
  double total() const {
    double sum = 0;
    for (int j = 0; j < 8; ++j) sum += excess(part(j), scale(block_.scales[j]), book_);
    return sum;
  }
  // Each sub-block alone; the largest scale is the least integer, which reaches further.
  void start() {
    std::array<float, 8> scales = {};
    float extreme = 0;
    for (int j = 0; j < 8; ++j) {
      if (largest_magnitude(part(j)) < 1e-15F) continue;
      scales[j] = fit_book_scale(part(j), book_);
      if (std::fabs(scales[j]) > std::fabs(extreme)) extreme = scales[j];
    }
    block_.d = f32_to_f16(extreme / kLeast);
    if (overflowed()) return;
    const float inverse = reciprocal(f16_to_f32(block_.d));
    for (int j = 0; j < 8; ++j)
      block_.scales[j] =
          std::clamp(static_cast<int>(std::lrint(scales[j] * inverse)), kLeast, kMost);
  }
  void improve_scales() {
    for (int j = 0; j < 8; ++j) {
      const int now = block_.scales[j];
      double best = excess(part(j), scale(now), book_);
      for (int s = std::max(now - 1, kLeast); s <= std::min(now + 1, kMost); ++s) {
        const double error = excess(part(j), scale(s), book_);
        if (error >= best) continue;
        best = error;
        block_.scales[j] = s;
      }
    }
  }
  // Least squares of d for the nearest values under the present one.
  void solve() {
    double aa = 0;
    double ax = 0;
    for (int j = 0; j < 8; ++j) {
      std::array<float, kSub> values;
      nearest_values(part(j), reciprocal(scale(block_.scales[j])), book_, values.data());
      const Sums s = sums_of(part(j), values.data());
      const double integer = block_.scales[j];
      aa += integer * integer * s.qq;
      ax += integer * s.xq;
    }
    if (aa > 0) block_.d = f32_to_f16(static_cast<float>(ax / aa));
  }

  std::span<const float> x_;
  const Book& book_;
  SuperBlock& block_;
};

}  // namespace

void fit_book_super_block(std::span<const float> x, const Book& book, SuperBlock& out) {
  BookFit(x, book, out).run();
}

}  // namespace veery
