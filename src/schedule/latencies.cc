#include "schedule/latencies.h"

#include <algorithm>
#include <numeric>

namespace veery {

void LatencyHistogram::add(double seconds, int64_t times) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  counts[static_cast<size_t>(bound - kBounds.begin())] += times;
  sum += seconds * static_cast<double>(times);
}

int64_t LatencyHistogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace veery
