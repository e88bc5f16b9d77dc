// offsets.h: the memory layout of values in one block. Values with disjoint lifetimes may overlap.
#pragma once
#include <cstddef>
#include <vector>

namespace veery {

/// Bytes that must be kept from step `first` to step `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  size_t bytes = 0;
};

struct ValueOffsets {
  std::vector<size_t> offsets;  ///< [lifetimes] in bytes, 64-byte aligned
  size_t bytes = 0;             ///< of the whole block
};

/// Assigns offsets by first fit, the largest value first. The result is close to the lower bound
/// for the sizes that models have.
ValueOffsets assign_offsets(const std::vector<Lifetime>& lifetimes);

}  // namespace veery
