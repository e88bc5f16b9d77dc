// slots.h: the block of values that vary between runs; it stays in place, so plans may point into
// it.
#pragma once
#include <numeric>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"

namespace veery {

class SlotBlock {
 public:
  /// For runs of at most `rows` tokens, each with `columns` features.
  explicit SlotBlock(int32_t rows, int64_t columns = 0)
      : features(size(rows) * static_cast<size_t>(columns)),
        tokens(size(rows)),
        types(size(rows)),
        positions(size(rows)),
        output_rows(size(rows)),
        targets(size(rows)),
        spans_(size(rows)),
        span_of_(size(rows)) {
    slots.tokens = tokens.data();
    slots.positions = positions.data();
    slots.output_rows = output_rows.data();
    slots.targets = targets.data();
    slots.spans = spans_.data();
    slots.span_of = span_of_.data();
  }
  SlotBlock(const SlotBlock&) = delete;
  SlotBlock& operator=(const SlotBlock&) = delete;

  /// The array that a slot node is bound to, by its name; nullptr: no such slot.
  int32_t* find(std::string_view name) {
    return name == "tokens"        ? tokens.data()
           : name == "types"       ? types.data()
           : name == "positions"   ? positions.data()
           : name == "output_rows" ? output_rows.data()
           : name == "targets"     ? targets.data()
                                   : nullptr;
  }

  /// The matrix of `columns` columns that an input node is bound to; nullptr: no such input.
  float* find_input(std::string_view name, int64_t columns) {
    const bool fits = features.size() == tokens.size() * static_cast<size_t>(columns);
    return name == "features" && fits ? features.data() : nullptr;
  }

  /// Begins a run without rows.
  void clear() { slots.rows = slots.outputs = slots.span_count = 0; }
  /// Appends `rows` rows of `sequence`, the first at `position`.
  void add_span(int32_t sequence, int32_t rows, int32_t position) {
    const int32_t first = slots.rows;
    spans_[static_cast<size_t>(slots.span_count)] = {sequence, first, rows, position};
    std::fill_n(span_of_.begin() + first, rows, slots.span_count++);
    std::iota(positions.begin() + first, positions.begin() + first + rows, position);
    slots.rows += rows;
  }

  Slots slots;
  std::vector<float> features;  ///< [rows][columns]
  std::vector<int32_t> tokens, types, positions, output_rows, targets;

 private:
  static size_t size(int32_t rows) { return static_cast<size_t>(rows); }

  std::vector<Span> spans_;
  std::vector<int32_t> span_of_;
};

}  // namespace veery
