// slots.h: the block of values that vary between runs; it stays in place, so plans may point into
// it.
#pragma once
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/dispatch.h"

namespace veery {

/// What every run has is there from the start; what else a graph names is made when a plan of it
/// is.
class SlotBlock {
 public:
  /// For runs of at most `rows` tokens.
  explicit SlotBlock(int32_t rows)
      : tokens(size(rows)),
        positions(size(rows)),
        output_rows(size(rows)),
        spans_(size(rows)),
        span_of_(size(rows)) {
    slots.tokens = tokens.data();
    slots.positions = positions.data();
    slots.output_rows = output_rows.data();
    slots.spans = spans_.data();
    slots.span_of = span_of_.data();
  }
  SlotBlock(const SlotBlock&) = delete;
  SlotBlock& operator=(const SlotBlock&) = delete;

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }

  /// [rows][columns] of a slot by its name, zeros at first. Throws kBug where it is there with
  /// another number of columns.
  std::span<int32_t> slot(std::string_view name, int64_t columns = 1) {
    if (name == "tokens") return tokens;
    if (name == "positions") return positions;
    if (name == "output_rows") return output_rows;
    return of_columns(slots_, name, columns);
  }

  /// The same of an input.
  std::span<float> input(std::string_view name, int64_t columns) {
    return of_columns(inputs_, name, columns);
  }

  /// Begins a run without rows and masks.
  void clear() {
    slots.rows = slots.outputs = slots.span_count = 0;
    slots.mask = nullptr;
  }
  /// Appends `rows` rows of `sequence`, the first at `position`.
  void add_span(int32_t sequence, int32_t rows, int32_t position) {
    const int32_t first = slots.rows;
    spans_[static_cast<size_t>(slots.span_count)] = {sequence, first, rows, position};
    std::fill_n(span_of_.begin() + first, rows, slots.span_count++);
    std::iota(positions.begin() + first, positions.begin() + first + rows, position);
    slots.rows += rows;
  }

  Slots slots;
  std::vector<int32_t> tokens, positions, output_rows;

 private:
  static size_t size(int32_t rows) { return static_cast<size_t>(rows); }
  template <typename T>
  using ByName = std::map<std::string, std::vector<T>, std::less<>>;
  template <typename T>
  std::span<T> of_columns(ByName<T>& all, std::string_view name, int64_t columns) const {
    const size_t count = tokens.size() * static_cast<size_t>(columns);
    const auto found = all.try_emplace(std::string(name), count).first;
    if (found->second.size() != count)
      throw Error(ErrorKind::kBug, "slots: {} of {} columns has {} values of {} rows", name,
                  columns, found->second.size(), tokens.size());
    return found->second;
  }

  std::vector<Span> spans_;
  std::vector<int32_t> span_of_;
  // Plans point into the arrays, which stay where they are.
  ByName<int32_t> slots_;
  ByName<float> inputs_;
};

}  // namespace veery
