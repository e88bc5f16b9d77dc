// dequantized_weights.h: weights as row-major bf16 for cuBLASLt, kept in addition to the packed
// ones.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "kernels/gpu/machine/machine.h"

namespace veery::gpu {

/// Caches dequantised weights. Weights that are multiplied together are contiguous. Thread-safe.
class DequantizedWeights {
 public:
  explicit DequantizedWeights(Machine& machine) : machine_(machine) {}

  /// Dequantises the weights on the first call, and releases them with the last reference. Returns
  /// nullptr if that would leave too little memory for caches and activations.
  std::shared_ptr<const Memory> find(std::span<const Weight> weights);

 private:
  bool has_room(size_t bytes) const;

  Machine& machine_;
  std::mutex mutex_;
  /// By the address of the first weight and the number of rows.
  std::map<std::pair<const uint8_t*, int64_t>, std::weak_ptr<const Memory>> made_;
};

/// Bytes of the dequantised weights.
size_t dequantized_bytes(std::span<const Weight> weights);
/// The launches that dequantise them to `out`.
std::vector<Launch> dequantize(std::span<const Weight> weights, std::byte* out);

}  // namespace veery::gpu
