// near_rows.h: rows of numbers that were added in another order.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace veery::test {

/// The largest distance of two rows, in lengths of the second. Where sums of a product with bf16
/// differ in their last bits, an x of the next one may be rounded to the other of its two
/// neighbours, which are 2^-8 of it apart at most. So even if all were, and errors of all products
/// of a small model added up, rows would be a few times 2^-8 apart.
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
