#include "kernels/gpu/run_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace veery::gpu {
namespace {

// The most rows that a code of Operand::rows stands for.
int64_t max_rows(const TableUse& use, int64_t code) {
  if (code >= 0) return code;
  return code == kTokenRows    ? use.rows
         : code == kOutputRows ? use.outputs
                               : std::min(use.rows, max_sequences(use));
}

// Rows in device memory have no gaps.
size_t row_bytes(const Operand& o) { return byte_size(o.dtype, o.cols); }

void copy_rows(const Operand& from, int64_t rows, std::byte* to) {
  const size_t bytes = row_bytes(from);
  if (from.stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from.data, bytes * static_cast<size_t>(rows));
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + bytes * static_cast<size_t>(r), from.row<std::byte>(r), bytes);
}

}  // namespace

int64_t max_sequences(const TableUse& use) {
  return std::max<int64_t>({1, use.sequences, use.shape->sequences});
}

RunInputsLayout::RunInputsLayout(const TableUse& use) : groups_(use.groups) {
  const auto tables = static_cast<size_t>(use.groups * use.shape->sequences);
  size_t entries = 0;
  for (size_t i = 0; i < tables; ++i) entries += static_cast<size_t>(use.shape->tables[i].count);
  const auto rows = static_cast<size_t>(use.rows);
  const auto take = [&](size_t words) {
    const size_t offset = words_;
    words_ += (words + 15) / 16 * 16;
    return offset;
  };
  counts_ = take(4);
  output_rows_ = take(rows);
  span_of_ = take(rows);
  spans_ = take(sizeof(RunSpan) / 4 * rows);
  tables_ = take(2 * tables);
  pages_ = take(entries);
  for (const RunInput& input : use.inputs) {
    const size_t bytes =
        static_cast<size_t>(max_rows(use, input.host.rows)) * row_bytes(input.host);
    inputs_.push_back({input, 4 * take((bytes + 3) / 4)});
  }
}

Run RunInputsLayout::run(std::byte* base) const {
  const auto* at = reinterpret_cast<const int32_t*>(base);
  return {at + counts_,  at + output_rows_,
          at + span_of_, reinterpret_cast<const RunSpan*>(at + spans_),
          at + tables_,  at + pages_};
}

bool RunInputsLayout::can_chain() const {
  const auto count = [&](Advance advance) {
    return std::ranges::count_if(inputs_,
                                 [&](const Input& own) { return own.input.advance == advance; });
  };
  return count(Advance::kNone) == 0 && count(Advance::kToken) <= 1 &&
         count(Advance::kPosition) <= 1;
}

int32_t* RunInputsLayout::advanced(Advance advance, std::byte* base) const {
  for (const Input& own : inputs_) {
    if (own.input.advance != advance) continue;
    VEERY_CHECK(own.input.host.dtype == DType::kI32 && own.input.host.cols == 1);
    return reinterpret_cast<int32_t*>(base + own.offset);
  }
  return nullptr;
}

ChainAdvanceParams RunInputsLayout::chain_advance(std::byte* base) const {
  ChainAdvanceParams params{};
  params.run = run(base);
  params.tokens = advanced(Advance::kToken, base);
  params.positions = advanced(Advance::kPosition, base);
  params.spans = reinterpret_cast<RunSpan*>(reinterpret_cast<int32_t*>(base) + spans_);
  return params;
}

void RunInputsLayout::fill(const RunShape& shape, std::byte* base) const {
  auto* at = reinterpret_cast<int32_t*>(base);
  const int32_t counts[] = {shape.rows, shape.outputs, shape.span_count, shape.sequences};
  std::copy_n(counts, 4, at + counts_);
  std::copy_n(shape.output_rows, shape.outputs, at + output_rows_);
  std::copy_n(shape.span_of, shape.rows, at + span_of_);
  auto* spans = reinterpret_cast<RunSpan*>(at + spans_);
  for (int32_t i = 0; i < shape.span_count; ++i) {
    const Span& span = shape.spans[i];
    spans[i] = {span.sequence, span.first_row, span.rows, span.position};
  }
  int32_t entry = 0;
  for (int i = 0; i < groups_ * shape.sequences; ++i) {
    const PageTable& table = shape.tables[i];
    at[tables_ + 2 * static_cast<size_t>(i)] = entry;
    at[tables_ + 2 * static_cast<size_t>(i) + 1] = table.count;
    std::copy_n(table.pages, table.count, at + pages_ + entry);
    entry += table.count;
  }
  for (const Input& own : inputs_)
    copy_rows(own.input.host, shape.count(own.input.host.rows), base + own.offset);
}

}  // namespace veery::gpu
