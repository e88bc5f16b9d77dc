#include "kernels/gpu/dequantized_weights.h"

#include <algorithm>

namespace veery::gpu {
namespace {

int64_t rows_of(std::span<const Weight> weights) {
  int64_t rows = 0;
  for (const Weight& w : weights) rows += w.rows;
  return rows;
}

}  // namespace

size_t expanded_bytes(std::span<const Weight> weights) {
  return static_cast<size_t>(rows_of(weights) * weights[0].cols) * sizeof(uint16_t);
}

std::vector<Launch> expand(std::span<const Weight> weights, std::byte* out) {
  std::vector<Launch> launches;
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (const Weight& w : weights) {
    launches.push_back(Launch::of(KernelId::expand,
                                  {.blocks_x = (w.rows + 15) / 16,
                                   .blocks_y = (w.cols + kExpandColumns - 1) / kExpandColumns,
                                   .threads = 256},
                                  ExpandArguments{w, to}));
    to += int64_t{w.rows} * w.cols;
  }
  return launches;
}

// Caches, activations of other runs and what others have on the device want some too.
bool ExpandedWeights::has_room(size_t bytes) const {
  constexpr size_t kLeast = size_t{2} << 30;
  const MemoryPool* pool = machine_.pool();
  if (pool == nullptr) return true;
  const size_t left = pool->available();
  return left >= bytes + std::max(kLeast, (pool->memory().active + bytes) / 8);
}

std::shared_ptr<const Memory> ExpandedWeights::find(std::span<const Weight> weights) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Memory>& place = made_[{weights[0].data, rows_of(weights)}];
  if (auto made = place.lock()) return made;
  const size_t bytes = expanded_bytes(weights);
  if (!has_room(bytes)) return nullptr;
  auto made = std::make_shared<const Memory>(machine_.allocate(bytes));
  machine_.record(expand(weights, made->data()), {})->run({});
  place = made;
  return made;
}

}  // namespace veery::gpu
