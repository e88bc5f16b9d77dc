// expanded.h: weights as bf16, row after row, beside their panels: what a library multiplies.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "kernels/gpu/gpu.h"

namespace veery::gpu {

/// Thread-safe. Weights that are multiplied together lie one behind the other.
class ExpandedWeights {
 public:
  explicit ExpandedWeights(Machine& machine) : machine_(machine) {}

  /// Made when it is first asked for, released when nobody has it any more; nullptr where that
  /// would leave too little memory for what else a model needs.
  std::shared_ptr<const Memory> find(std::span<const Weight> weights);

 private:
  bool has_room(size_t bytes) const;

  Machine& machine_;
  std::mutex mutex_;
  /// By the address of the first weight and the number of rows.
  std::map<std::pair<const uint8_t*, int64_t>, std::weak_ptr<const Memory>> made_;
};

/// Bytes of such weights.
size_t expanded_bytes(std::span<const Weight> weights);
/// What expands them to `out`.
std::vector<Launch> expand(std::span<const Weight> weights, std::byte* out);

}  // namespace veery::gpu
