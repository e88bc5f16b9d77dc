#include "serve/access/rate_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/printable.h"

namespace veery::serve {
namespace {

constexpr double kMinute = 60;

// Returns a duration in the format of OpenAI: "6m0s", "1.5s".
std::string duration_text(double seconds) {
  const double rounded = std::ceil(seconds * 1000) / 1000;
  const auto minutes = static_cast<int64_t>(rounded / kMinute);
  if (minutes == 0) return fmt::format("{}s", rounded);
  return fmt::format("{}m{}s", minutes,
                     std::round((rounded - 60.0 * static_cast<double>(minutes)) * 1000) / 1000);
}

// Returns a time in the format of Anthropic (RFC 3339).
std::string time_after(double seconds) {
  const std::time_t time = std::time(nullptr) + static_cast<std::time_t>(std::ceil(seconds));
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

ApiError refusal(const ApiKey& key, const std::string& what, double wait) {
  ApiError error(429,
                 fmt::format("rate limit reached for '{}': {}. Try again in {}.",
                             printable(key.name), what, duration_text(wait)),
                 {}, "rate_limit_exceeded");
  error.retry_after = wait;
  return error;
}

Allowance::Part part_of(Bucket& bucket, double now) {
  if (!bucket.limits()) return {};
  return {static_cast<int64_t>(bucket.most()),
          static_cast<int64_t>(std::max(0.0, std::floor(bucket.level(now)))),
          bucket.wait(bucket.most(), now)};
}

}  // namespace

double Bucket::level(double now) {
  level_ = std::min(most_, level_ + std::max(now - filled_, 0.0) * most_ / kMinute);
  filled_ = now;
  return level_;
}

void Bucket::take(double count, double now) {
  level(now);
  level_ -= count;
}

double Bucket::wait(double count, double now) {
  return std::max(0.0, (count - level(now)) * kMinute / most_);
}

void add_limit_headers(const Allowance& allowance, Family family, Reply& reply) {
  const auto add = [&](const Allowance::Part& part, const std::string& what) {
    if (part.limit == 0) return;
    if (family == Family::kAnthropic) {
      const std::string name = "anthropic-ratelimit-" + what;
      reply.add_header(name + "-limit", std::to_string(part.limit));
      reply.add_header(name + "-remaining", std::to_string(part.left));
      reply.add_header(name + "-reset", time_after(part.reset));
      return;
    }
    reply.add_header("x-ratelimit-limit-" + what, std::to_string(part.limit));
    reply.add_header("x-ratelimit-remaining-" + what, std::to_string(part.left));
    reply.add_header("x-ratelimit-reset-" + what, duration_text(part.reset));
  };
  add(allowance.requests, "requests");
  add(allowance.tokens, "tokens");
}

struct RateLimits::Use {
  ApiKey key;
  Bucket requests, tokens;
  int64_t running = 0;
};

RateLimits::RateLimits(std::vector<ApiKey> keys, double now) {
  for (ApiKey& key : keys) {
    const Bucket requests(key.requests_per_minute, now), tokens(key.tokens_per_minute, now);
    keys_.push_back(std::make_unique<Use>(Use{std::move(key), requests, tokens}));
  }
}

RateLimits::~RateLimits() = default;

// Compares with all keys, so that the time does not depend on the key.
int64_t RateLimits::find(std::string_view secret) const {
  int64_t found = -1;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (same_secret(secret, keys_[i]->key.secret)) found = static_cast<int64_t>(i);
  return found;
}

const ApiKey& RateLimits::key(int64_t index) const { return at(index).key; }

void RateLimits::enter(int64_t index, double now) {
  constexpr double kBusy = 1;  // seconds; the end of a running request is unknown
  const std::lock_guard lock(mutex_);
  Use& use = at(index);
  if (use.key.concurrent_requests > 0 && use.running >= use.key.concurrent_requests)
    throw refusal(use.key, fmt::format("{} requests are running", use.running), kBusy);
  if (use.requests.limits() && use.requests.level(now) < 1)
    throw refusal(use.key, fmt::format("{} requests per minute", use.key.requests_per_minute),
                  use.requests.wait(1, now));
  if (use.tokens.limits() && use.tokens.level(now) < 1)
    throw refusal(use.key, fmt::format("{} tokens per minute", use.key.tokens_per_minute),
                  use.tokens.wait(1, now));
  if (use.requests.limits()) use.requests.take(1, now);
  ++use.running;
}

void RateLimits::leave(int64_t index, int64_t tokens, double now) {
  const std::lock_guard lock(mutex_);
  Use& use = at(index);
  --use.running;
  if (use.tokens.limits()) use.tokens.take(static_cast<double>(tokens), now);
}

Allowance RateLimits::allowance(int64_t index, double now) const {
  const std::lock_guard lock(mutex_);
  Use& use = at(index);
  return {part_of(use.requests, now), part_of(use.tokens, now)};
}

}  // namespace veery::serve
