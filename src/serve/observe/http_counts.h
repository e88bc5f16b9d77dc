// http_counts.h: counts requests by endpoint, method and status.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>

#include "serve/observe/request_record.h"

namespace veery::serve {

/// Safe to use from several threads.
class HttpCounts {
 public:
  /// Template of the route, method, status. Unknown routes and methods count as "other", so that
  /// clients cannot increase the number of keys.
  using Key = std::tuple<std::string_view, std::string_view, int>;

  void count(const RequestRecord& record) noexcept;
  std::map<Key, int64_t> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<Key, int64_t> counts_;
};

}  // namespace veery::serve
