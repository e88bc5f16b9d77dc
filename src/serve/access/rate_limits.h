// rate_limits.h: how many requests and tokens a key may use.
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

/// A token bucket: holds `per_minute` at most and fills evenly in a minute. Not thread-safe.
/// Times are seconds of one clock.
class Bucket {
 public:
  Bucket(int64_t per_minute, double now)
      : most_(static_cast<double>(per_minute)), level_(most_), filled_(now) {}

  bool limits() const { return most_ > 0; }
  /// What is left; less than 0 after more was taken than there was.
  double level(double now);
  void take(double count, double now);
  /// Seconds until there are `count`.
  double wait(double count, double now);
  double most() const { return most_; }

 private:
  double most_, level_, filled_;
};

/// What a key has left.
struct Allowance {
  struct Part {
    int64_t limit = 0, left = 0;  ///< limit 0: there is none
    double reset = 0;             ///< seconds until all is left
  };
  Part requests, tokens;
};

/// Sets the headers by which clients of OpenAI (x-ratelimit-*) or Anthropic (anthropic-ratelimit-*)
/// see what is left.
void add_limit_headers(const Allowance& allowance, Family family, Reply& reply);

/// The keys of a server with what each has used. Safe to use from several threads.
class RateLimits {
 public:
  /// `now`: seconds_now().
  RateLimits(std::vector<ApiKey> keys, double now);
  ~RateLimits();

  bool empty() const { return keys_.empty(); }
  /// Position of the key that a request brought; less than 0: it is none.
  int64_t find(std::string_view secret) const;
  const ApiKey& key(int64_t index) const;

  /// Counts a request of a key in. Throws ApiError 429, with the seconds after which to try again,
  /// if it has too many in the making, or none or no tokens are left in this minute.
  void enter(int64_t index, double now);
  /// A request that entered is over and used so many tokens.
  void leave(int64_t index, int64_t tokens, double now);
  Allowance allowance(int64_t index, double now) const;

 private:
  struct Use;
  Use& at(int64_t index) const { return *keys_[static_cast<size_t>(index)]; }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Use>> keys_;
};

}  // namespace veery::serve
