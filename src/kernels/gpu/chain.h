// chain.h: many steps of a table as one submission.
#pragma once
#include <optional>

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/run_inputs.h"

namespace veery::gpu {

/// What a step leaves on the device: the most probable token of each row, or what top_k() gives.
struct ChainEnd {
  Matrix best;  ///< i32
  Matrix values{}, mass{};
  bool draws() const { return static_cast<bool>(values); }  ///< top_k() is there
};
/// Nothing where the results of a table are no such thing, or the machine has no kernel that goes
/// on with them.
std::optional<ChainEnd> chain_end(const Machine& machine, std::span<const Step> table,
                                  std::span<const Operand> results, const TableUse& use);
/// Bytes that a chain wants behind the slots.
size_t chain_bytes(const ChainEnd& end, int64_t rows);

/// A loop of launches where the machine has such; else a few steps, one behind the other.
class Chain {
 public:
  /// `step`: the launches of a run of the table, which refer to `slots`, where `places` and behind
  /// them chain_bytes() are.
  Chain(Machine& machine, const SlotPlaces& places, std::byte* slots, std::vector<Launch> step,
        const ChainEnd& end, int64_t rows);

  int32_t most() const { return most_; }  ///< tokens of a row; 0: there is no room for two steps
  void run(const Slots& slots, std::span<const ChainRow> rows);
  std::span<const int32_t> chosen(int64_t row) const;

 private:
  std::vector<Launch> repeated(std::vector<Launch> step, AdvanceArguments advance, int times) const;

  const SlotPlaces& places_;
  KernelId kernel_;
  bool draws_;
  size_t rows_, bytes_;
  int32_t most_ = kMostChained;
  Memory made_, again_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace veery::gpu
