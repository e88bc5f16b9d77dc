#include "kernels/common/intern.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace veery {

std::string_view intern(std::string name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::lock_guard lock(mutex);
  return *names.insert(std::move(name)).first;
}

}  // namespace veery
