#include "kernels/gpu/launch/dequantized_weights.h"

#include <algorithm>

namespace veery::gpu {
namespace {

int64_t total_rows(std::span<const Weight> weights) {
  int64_t rows = 0;
  for (const Weight& w : weights) rows += w.rows;
  return rows;
}

}  // namespace

size_t dequantized_bytes(std::span<const Weight> weights) {
  return static_cast<size_t>(total_rows(weights) * weights[0].cols) * sizeof(uint16_t);
}

std::vector<Launch> dequantize(std::span<const Weight> weights, std::byte* out) {
  std::vector<Launch> launches;
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (const Weight& w : weights) {
    launches.push_back(
        Launch::of(KernelId::dequantize,
                   {.blocks_x = (w.rows + 15) / 16,
                    .blocks_y = (w.cols + kDequantizeColumns - 1) / kDequantizeColumns,
                    .threads = 256},
                   DequantizeParams{w, to}));
    to += int64_t{w.rows} * w.cols;
  }
  return launches;
}

// Leaves memory for caches, for the activations of other runs and for other programs.
bool DequantizedWeights::has_room(size_t bytes) const {
  constexpr size_t kReserve = size_t{2} << 30;
  const MemoryPool* pool = machine_.pool();
  if (pool == nullptr) return true;
  const size_t left = pool->available();
  return left >= bytes + std::max(kReserve, (pool->memory().active + bytes) / 8);
}

std::shared_ptr<const Memory> DequantizedWeights::find(std::span<const Weight> weights) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Memory>& cached = made_[{weights[0].data, total_rows(weights)}];
  if (auto made = cached.lock()) return made;
  const size_t bytes = dequantized_bytes(weights);
  if (!has_room(bytes)) return nullptr;
  auto made = std::make_shared<const Memory>(machine_.allocate(bytes));
  machine_.record(dequantize(weights, made->data()), {})->run({});
  cached = made;
  return made;
}

}  // namespace veery::gpu
