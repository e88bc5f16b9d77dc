// latencies.h: histograms of the latencies of answers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace veery {

/// A histogram of durations with the buckets of Prometheus. Not thread-safe.
struct LatencyHistogram {
  /// Upper bounds in seconds; one more bucket counts longer durations.
  static constexpr std::array<double, 20> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   25,
                                                     50,    100,    250,   500,  1000,  2500};
  std::array<int64_t, kBounds.size() + 1> counts{};  ///< [i]: above bound i-1, up to bound i
  double sum = 0;

  /// Counts `times` durations of `seconds` each.
  void add(double seconds, int64_t times = 1);
  int64_t total() const;
};

/// Latencies of requests in seconds since submit(), if nothing else is stated.
struct Latencies {
  LatencyHistogram queue;           ///< until the prefill begins
  LatencyHistogram first_token;     ///< until the first token of the answer
  LatencyHistogram between_tokens;  ///< from one token to the next, without the first
  LatencyHistogram whole;           ///< until the end of the answer, however it ended
};

}  // namespace veery
