// service.h: who may ask, which endpoint answers, and what becomes of errors.
#pragma once
#include <string>
#include <vector>

#include "serve/access/rate_limits.h"
#include "serve/api/context.h"
#include "serve/http/message.h"

namespace veery::serve {

struct ServiceOptions {
  std::vector<ApiKey> api_keys;  ///< one of them is wanted; empty: none is
  /// Origins that browsers may ask from, "*": any; pages of this server itself always may.
  std::vector<std::string> origins;
  /// Names that requests may call this server by, beside addresses and localhost. What is bound to
  /// loopback answers to no others, so that no page of a foreign name reaches it (DNS rebinding).
  std::vector<std::string> hosts;
  bool loopback = true;
};

/// Answers requests; safe to call from several threads.
class Service {
 public:
  Service(Context& context, ServiceOptions options);
  void handle(const HttpRequest& request, Reply& reply);

 private:
  void check_host(const HttpRequest& request) const;
  /// Position of the key that the request brings; less than 0: none is wanted.
  int64_t check_key(const HttpRequest& request) const;
  void answer(const Route& route, Family family, const HttpRequest& request, Reply& reply);
  void refuse(Family family, const std::exception& error, Reply& reply);
  /// The origin that a browser is told may read the answer; empty: nothing is said.
  std::string allowed_origin(const HttpRequest& request) const;

  Context& context_;
  ServiceOptions options_;
  RateLimits limits_;
};

}  // namespace veery::serve
