// slots.h: the block of values that vary between runs; it stays in place, so plans may point into
// it.
#pragma once
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"

namespace veery {

class SlotBlock {
 public:
  /// For runs of at most `rows` tokens.
  explicit SlotBlock(int32_t rows)
      : tokens(size(rows)),
        positions(size(rows)),
        sequence(size(rows)),
        output_rows(size(rows)),
        targets(size(rows)) {
    slots.tokens = tokens.data();
    slots.positions = positions.data();
    slots.sequence = sequence.data();
    slots.output_rows = output_rows.data();
    slots.targets = targets.data();
  }
  SlotBlock(const SlotBlock&) = delete;
  SlotBlock& operator=(const SlotBlock&) = delete;

  /// The array of a slot node: "tokens", "positions", "output_rows" or "targets"; nullptr: no such
  /// slot.
  int32_t* find(std::string_view name) {
    return name == "tokens"        ? tokens.data()
           : name == "positions"   ? positions.data()
           : name == "output_rows" ? output_rows.data()
           : name == "targets"     ? targets.data()
                                   : nullptr;
  }

  Slots slots;
  std::vector<int32_t> tokens, positions, sequence, output_rows, targets;

 private:
  static size_t size(int32_t rows) { return static_cast<size_t>(rows); }
};

}  // namespace veery
