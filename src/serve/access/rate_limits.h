// rate_limits.h: limits of requests and tokens per API key.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/access/api_keys.h"
#include "serve/api/api_error.h"
#include "serve/http/message.h"

namespace veery::serve {

/// A token bucket: holds at most `per_minute` and fills evenly within a minute. Times are seconds
/// of one clock. Not thread-safe.
class Bucket {
 public:
  Bucket(int64_t per_minute, double now)
      : most_(static_cast<double>(per_minute)), level_(most_), filled_(now) {}

  bool limits() const { return most_ > 0; }
  /// Returns what is left; negative after more was taken.
  double level(double now);
  void take(double count, double now);
  /// Returns the seconds until `count` are available.
  double wait(double count, double now);
  double most() const { return most_; }

 private:
  double most_, level_, filled_;
};

/// The remaining allowance of a key.
struct Allowance {
  struct Part {
    int64_t limit = 0, left = 0;  ///< limit 0: no limit
    double reset = 0;             ///< seconds until the allowance is full again
  };
  Part requests, tokens;
};

/// Sets the rate limit headers of OpenAI (x-ratelimit-*) or Anthropic (anthropic-ratelimit-*).
void add_limit_headers(const Allowance& allowance, Family family, Reply& reply);

/// The keys of a server and what each has used. Safe to use from several threads.
class RateLimits {
 public:
  /// `now`: seconds_now().
  RateLimits(std::vector<ApiKey> keys, double now);
  ~RateLimits();

  bool empty() const { return keys_.empty(); }
  /// Returns the index of the key with this secret; -1: none.
  int64_t find(std::string_view secret) const;
  const ApiKey& key(int64_t index) const;

  /// Counts a new request of a key. Throws ApiError 429, with the seconds after which to try again,
  /// if too many of its requests are running or its requests or tokens are used up.
  void enter(int64_t index, double now);
  /// Counts the end of a request and its tokens.
  void leave(int64_t index, int64_t tokens, double now);
  Allowance allowance(int64_t index, double now) const;

 private:
  struct Use;
  Use& at(int64_t index) const { return *keys_[static_cast<size_t>(index)]; }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Use>> keys_;
};

}  // namespace veery::serve
