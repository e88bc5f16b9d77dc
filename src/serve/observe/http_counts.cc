#include "serve/observe/http_counts.h"

#include <algorithm>
#include <array>
#include <exception>

namespace veery::serve {
namespace {

constexpr std::string_view kOther = "other";

// Returns a view of static storage, which outlives the record.
std::string_view known_method(std::string_view method) {
  constexpr std::array<std::string_view, 7> kMethods = {"GET",    "HEAD",    "POST", "PUT",
                                                        "DELETE", "OPTIONS", "PATCH"};
  const auto* found = std::ranges::find(kMethods, method);
  return found == kMethods.end() ? kOther : *found;
}

}  // namespace

void HttpCounts::count(const RequestRecord& record) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    ++counts_[{record.route.empty() ? kOther : record.route, known_method(record.method),
               record.status}];
  } catch (const std::exception&) {
    // Memory is short: the request is not counted.
  }
}

std::map<HttpCounts::Key, int64_t> HttpCounts::all() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace veery::serve
