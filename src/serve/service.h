// service.h: access control, routing to the endpoints, and error replies.
#pragma once
#include <string>
#include <vector>

#include "serve/access/rate_limits.h"
#include "serve/api/context.h"
#include "serve/http/message.h"

namespace veery::serve {

struct ServiceOptions {
  std::vector<ApiKey> api_keys;  ///< requests must bring one of them; empty: no key is needed
  /// Origins that browsers may send requests from, "*": any. Pages of this server are always
  /// allowed.
  std::vector<std::string> origins;
  /// Host names that requests may use besides addresses and localhost. A server that is bound to
  /// loopback refuses other names, so that a page of a foreign name cannot reach it (DNS
  /// rebinding).
  std::vector<std::string> hosts;
  bool loopback = true;  ///< the server is bound to a loopback address
};

/// Answers requests. Safe to call from several threads.
class Service {
 public:
  Service(Context& context, ServiceOptions options);
  void handle(const HttpRequest& request, Reply& reply);

 private:
  void check_host(const HttpRequest& request) const;
  /// Returns the index of the request's key, or -1 if no key is needed. Throws ApiError 401.
  int64_t check_key(const HttpRequest& request) const;
  void answer(const Route& route, Family family, const HttpRequest& request, Reply& reply);
  void refuse(Family family, const std::exception& error, Reply& reply);
  /// Returns the origin for Access-Control-Allow-Origin; empty: the request has no origin. Throws
  /// ApiError 403 for an origin that is not allowed.
  std::string allowed_origin(const HttpRequest& request) const;

  Context& context_;
  ServiceOptions options_;
  RateLimits limits_;
};

}  // namespace veery::serve
