// slot_places.h: the slots of a run as one block of memory, the same on both sides.
#pragma once
#include "kernels/backend.h"
#include "kernels/gpu/params/chain_params.h"

namespace veery::gpu {

class SlotPlaces {
 public:
  explicit SlotPlaces(const TableUse& use);

  size_t bytes() const { return words_ * 4; }
  Run run(std::byte* base) const;
  /// Where a chain finds what it changes; nothing else of the arguments is set.
  AdvanceArguments advance(std::byte* base) const;
  void fill(const Slots& slots, std::byte* base) const;

 private:
  TableUse use_;
  size_t words_ = 0;
  size_t counts_ = 0, tokens_ = 0, types_ = 0, positions_ = 0, output_rows_ = 0, span_of_ = 0,
         spans_ = 0, tables_ = 0, pages_ = 0, extended_ = 0;
};

/// Sequences of a run, at most.
int64_t most_sequences(const TableUse& use);

}  // namespace veery::gpu
