// near_rows.h: compares rows of numbers that were summed in different orders.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace veery::test {

/// Upper bound of distance(), the largest distance of two rows relative to the length of the
/// second. If sums of a bf16 product differ in their last bits, the input of the next product may
/// be rounded to the other neighbouring bf16, which differs by at most 2^-8. Even if that happened
/// everywhere and the errors of all products of a small model added up, rows would differ by a few
/// times 2^-8.
inline constexpr double kNear = 0x1p-6;
inline double distance(const std::vector<std::vector<float>>& a,
                       const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t r = 0; r < a.size(); ++r) {
    if (a[r].size() != b[r].size()) return INFINITY;
    double apart = 0, length = 0;
    for (size_t i = 0; i < a[r].size(); ++i) {
      const double x = a[r][i], y = b[r][i];
      apart += (x - y) * (x - y);
      length += y * y;
    }
    const double own = std::sqrt(apart / length);
    if (!(own <= most)) most = own;
  }
  return most;
}

}  // namespace veery::test
