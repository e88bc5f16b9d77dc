// latencies.h: how long answers take, as histograms.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace veery {

/// Durations counted by upper bounds, in the way of Prometheus. Not thread-safe.
struct LatencyHistogram {
  /// Seconds; one more count holds what is longer than the last of them.
  static constexpr std::array<double, 20> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   25,
                                                     50,    100,    250,   500,  1000,  2500};
  std::array<int64_t, kBounds.size() + 1> counts{};  ///< [i]: above bound i-1, up to bound i
  double sum = 0;

  /// Counts `times` durations of `seconds` each.
  void add(double seconds, int64_t times = 1);
  int64_t total() const;
};

/// All are of requests that have begun or ended, in seconds since submit() where nothing else is
/// said.
struct Latencies {
  LatencyHistogram queue;           ///< until the prompt is begun
  LatencyHistogram first_token;     ///< until the first token of the answer
  LatencyHistogram between_tokens;  ///< from one token to the next, the first one left out
  LatencyHistogram whole;           ///< until the end of the answer, however it ended
};

}  // namespace veery
