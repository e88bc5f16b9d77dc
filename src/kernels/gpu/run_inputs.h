// run_inputs.h: everything that varies between the runs of a table, in one block of memory with the
// same layout on host and device.
#pragma once
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/params/chain_params.h"

namespace veery::gpu {

/// The shape of a run (counts, spans, output rows, page tables) and the inputs that the table
/// declares. fill() writes the block on the host; one copy transfers it to the device.
class RunInputsLayout {
 public:
  explicit RunInputsLayout(const TableUse& use);

  size_t bytes() const { return words_ * 4; }
  /// Addresses in a block that begins at `base`.
  Run run(std::byte* base) const;
  std::byte* input(size_t i, std::byte* base) const { return base + inputs_[i].offset; }
  /// Whether a decode step can write the inputs of the next one: each declares how it advances, and
  /// at most one is advanced in each way that needs a kernel.
  bool can_chain() const;
  /// Returns parameters of chain_advance() with the addresses in the block that a chain overwrites;
  /// the other parameters are not set.
  ChainAdvanceParams chain_advance(std::byte* base) const;
  /// Copies the shape of a run and its inputs to the block at `base`.
  void fill(const RunShape& shape, std::byte* base) const;

 private:
  struct Input {
    RunInput input;
    size_t offset;  ///< bytes
  };
  int32_t* advanced(Advance advance, std::byte* base) const;

  int groups_;
  size_t words_ = 0;
  // Offsets in words.
  size_t counts_ = 0, output_rows_ = 0, span_of_ = 0, spans_ = 0, tables_ = 0, pages_ = 0;
  std::vector<Input> inputs_;
};

/// The most sequences of a run.
int64_t max_sequences(const TableUse& use);

}  // namespace veery::gpu
