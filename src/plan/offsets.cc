#include "plan/offsets.h"

#include <algorithm>
#include <numeric>

#include "device/memory.h"

namespace veery {

ValueOffsets assign_offsets(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  ValueOffsets result;
  result.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t item : order) {
    const Lifetime& life = lifetimes[item];
    size_t offset = 0;
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < life.first || o.first > life.last) continue;
      if (result.offsets[other] >= offset + aligned(life.bytes))
        break;  // the gap before it is large enough
      offset = std::max(offset, result.offsets[other] + aligned(o.bytes));
    }
    result.offsets[item] = offset;
    result.bytes = std::max(result.bytes, offset + aligned(life.bytes));
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t value, size_t other) { return value < result.offsets[other]; });
    placed.insert(at, item);
  }
  return result;
}

}  // namespace veery
