#include "kernels/gpu/run_inputs.h"

#include <algorithm>
#include <cstring>

namespace veery::gpu {

int64_t max_sequences(const TableUse& use) {
  return std::max<int64_t>({1, use.sequences, use.slots->sequences});
}

RunInputsLayout::RunInputsLayout(const TableUse& use) : use_(use) {
  const auto tables = static_cast<size_t>(use.groups * use.slots->sequences);
  size_t entries = 0;
  for (size_t i = 0; i < tables; ++i) entries += static_cast<size_t>(use.slots->tables[i].count);
  const auto rows = static_cast<size_t>(use.rows);
  const auto take = [&](size_t& offset, size_t words) {
    offset = words_;
    words_ += (words + 15) / 16 * 16;
  };
  take(counts_, 4);
  take(tokens_, rows);
  take(types_, rows);
  take(positions_, rows);
  take(output_rows_, rows);
  take(span_of_, rows);
  take(spans_, 4 * rows);
  take(tables_, 2 * tables);
  take(pages_, entries);
  take(extended_, static_cast<size_t>(max_sequences(use)));
}

Run RunInputsLayout::run(std::byte* base) const {
  const auto* at = reinterpret_cast<const int32_t*>(base);
  return {at + counts_,
          at + tokens_,
          at + types_,
          at + positions_,
          at + output_rows_,
          at + span_of_,
          reinterpret_cast<const RunSpan*>(at + spans_),
          at + tables_,
          at + pages_,
          at + extended_};
}

ChainAdvanceParams RunInputsLayout::chain_advance(std::byte* base) const {
  auto* at = reinterpret_cast<int32_t*>(base);
  ChainAdvanceParams params{};
  params.run = run(base);
  params.tokens = at + tokens_;
  params.positions = at + positions_;
  params.spans = reinterpret_cast<RunSpan*>(at + spans_);
  return params;
}

void RunInputsLayout::fill(const Slots& slots, std::byte* base) const {
  auto* at = reinterpret_cast<int32_t*>(base);
  const int32_t counts[] = {slots.rows, slots.outputs, slots.span_count, slots.sequences};
  std::copy_n(counts, 4, at + counts_);
  std::copy_n(slots.tokens, slots.rows, at + tokens_);
  if (use_.types != nullptr) std::copy_n(use_.types, slots.rows, at + types_);
  std::copy_n(slots.positions, slots.rows, at + positions_);
  std::copy_n(slots.output_rows, slots.outputs, at + output_rows_);
  std::copy_n(slots.span_of, slots.rows, at + span_of_);
  static_assert(sizeof(Span) == sizeof(RunSpan));
  std::memcpy(at + spans_, slots.spans, sizeof(Span) * static_cast<size_t>(slots.span_count));
  int32_t entry = 0;
  for (int i = 0; i < use_.groups * slots.sequences; ++i) {
    const PageTable& table = slots.tables[i];
    at[tables_ + 2 * static_cast<size_t>(i)] = entry;
    at[tables_ + 2 * static_cast<size_t>(i) + 1] = table.count;
    std::copy_n(table.pages, table.count, at + pages_ + entry);
    entry += table.count;
  }
  for (int i = 0; i < slots.sequences; ++i)
    at[extended_ + static_cast<size_t>(i)] = slots.extended != nullptr && slots.extended[i] != 0;
}

}  // namespace veery::gpu
