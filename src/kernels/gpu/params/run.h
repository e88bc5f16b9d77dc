// run.h: parameters of all kernels: matrices in device memory, and the shape of a run.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Rows of f32 or i32 in device memory. `rows` is a count or one of the codes of Operand::rows.
struct Matrix {
  VEERY_DEVICE float* data;
  int64_t stride;  ///< elements between rows
  int64_t rows;
  int32_t cols;

  VEERY_GPU VEERY_DEVICE float* row(int64_t r) const { return data + r * stride; }
  explicit VEERY_GPU_HOST operator bool() const { return data != nullptr; }
};

/// The RMS norm that a product applies to its input.
struct Norm {
  const VEERY_DEVICE float* weight;  ///< nullptr: no norm
  float eps;
};

/// veery::Span, without the members that only CPU kernels use.
struct RunSpan {
  int32_t sequence, first_row, rows, position;
};

VEERY_GPU RunSpan span_at(const VEERY_DEVICE RunSpan* at) {
  return {at->sequence, at->first_row, at->rows, at->position};
}

/// The shape of a run (veery::RunShape) in device memory.
struct Run {
  const VEERY_DEVICE int32_t* counts;  ///< rows, outputs, spans, sequences
  const VEERY_DEVICE int32_t *output_rows, *span_of;
  const VEERY_DEVICE RunSpan* spans;
  const VEERY_DEVICE int32_t* tables;  ///< [group][sequence][2]: offset in `pages`, count
  const VEERY_DEVICE int32_t* pages;

  /// The number of rows that a code of Operand::rows stands for in this run.
  VEERY_GPU int64_t count(int64_t code) const {
    if (code >= 0) return code;
    const int64_t base = -(-code % 16), times = -code / 16;
    const int32_t own = base == -1 ? counts[0] : base == -2 ? counts[1] : counts[2];
    return times > 0 ? own * times : own;
  }
  /// The code for `times` times the rows of `code`.
  static int64_t times(int64_t code, int64_t times) {
    return code >= 0 ? code * times : code - 16 * times;
  }
  /// The position of a token row in its sequence.
  VEERY_GPU int32_t position(int64_t row) const {
    const RunSpan own = span_at(spans + span_of[row]);
    return own.position + static_cast<int32_t>(row) - own.first_row;
  }
  /// The token row that row r of an operand belongs to.
  VEERY_GPU int64_t token_row(int64_t code, int64_t r) const {
    return code == -2 ? output_rows[r] : r;
  }
};

}  // namespace veery::gpu
