#include "kernels/common/softmax_mass.h"

#include <algorithm>
#include <array>

namespace veery {
namespace {

constexpr size_t kPiece = 1024;
using Sums = std::array<double, 16>;

double folded(Sums sums) {
  for (size_t half = sums.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

}  // namespace

// Separate loops over a piece, so that compilers vectorise each of them.
double softmax_mass(std::span<const float> row, float largest) {
  std::array<float, kPiece> terms;
  Sums pieces{};
  for (size_t begin = 0, piece = 0; begin < row.size(); begin += kPiece, ++piece) {
    const size_t count = std::min(kPiece, row.size() - begin);
    const float* const from = row.data() + begin;
    for (size_t i = 0; i < count; ++i) terms[i] = clamp_exponent(from[i] - largest);
    for (size_t i = 0; i < count; ++i) terms[i] = quick_exp(terms[i]);
    std::fill(terms.begin() + static_cast<ptrdiff_t>(count), terms.end(), 0.0F);
    Sums sums{};
    for (size_t i = 0; i < kPiece; i += sums.size())
      for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += terms[i + lane];
    pieces[piece % pieces.size()] += folded(sums);
  }
  return folded(pieces);
}

}  // namespace veery
