// run_inputs.h: the slots of a run as one block of memory with the same layout on host and device.
#pragma once
#include "kernels/backend.h"
#include "kernels/gpu/params/chain_params.h"

namespace veery::gpu {

class RunInputsLayout {
 public:
  explicit RunInputsLayout(const TableUse& use);

  size_t bytes() const { return words_ * 4; }
  /// Addresses of the slots in a block that begins at `base`.
  Run run(std::byte* base) const;
  /// The slots that a chain overwrites; the other parameters are not set.
  ChainAdvanceParams chain_advance(std::byte* base) const;
  /// Copies the slots to the block at `base`.
  void fill(const Slots& slots, std::byte* base) const;

 private:
  TableUse use_;
  size_t words_ = 0;
  // Offsets in words.
  size_t counts_ = 0, tokens_ = 0, types_ = 0, positions_ = 0, output_rows_ = 0, span_of_ = 0,
         spans_ = 0, tables_ = 0, pages_ = 0, extended_ = 0;
};

/// The most sequences of a run.
int64_t max_sequences(const TableUse& use);

}  // namespace veery::gpu
