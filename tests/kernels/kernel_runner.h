// kernel_runner.h: matrices, run shapes and caches for kernel tests; runs one op with any number of
// workers.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"

namespace veery::test {

/// Memory aligned to 64 bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size = 0) : storage_(size + 64) {}
  std::byte* data() {
    return storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> storage_;
};

/// An f32 or i32 matrix with `pad` extra columns, so that the stride differs from the width.
struct Matrix {
  Matrix(int64_t rows, int32_t cols, DType type = DType::kF32, int pad = 3)
      : bytes(std::make_shared<AlignedBytes>(static_cast<size_t>(rows * (cols + pad) * 4))) {
    operand = {bytes->data(), (cols + pad) * int64_t{4}, rows, cols, type, Layout::kRowMajor};
  }
  float* operator[](int64_t r) { return operand.row<float>(r); }
  const float* operator[](int64_t r) const { return operand.row<float>(r); }

  std::shared_ptr<AlignedBytes> bytes;
  Operand operand;
};

inline Matrix random_matrix(int64_t rows, int32_t cols, Random& random, float scale = 1,
                            int pad = 3) {
  Matrix m(rows, cols, DType::kF32, pad);
  for (int64_t r = 0; r < rows; ++r)
    for (int32_t c = 0; c < cols; ++c) m[r][c] = scale * random.normal();
  return m;
}

inline Matrix indices(const std::vector<int32_t>& values) {
  Matrix m(static_cast<int64_t>(values.size()), 1, DType::kI32, 0);
  std::copy(values.begin(), values.end(), m.operand.row<int32_t>(0));
  return m;
}

/// Rows of some sequences, and the pages of their KV caches.
struct Batch {
  std::vector<int32_t> positions, span_of;
  std::vector<Span> spans;
  std::shared_ptr<std::vector<std::vector<int32_t>>> pages;  ///< per sequence; shared by copies
  std::vector<PageTable> tables;
  int page_count = 0;

  /// Creates sequences with a capacity of `capacity` positions each; their pages are interleaved.
  Batch(int sequences, int capacity)
      : pages(std::make_shared<std::vector<std::vector<int32_t>>>(static_cast<size_t>(sequences))) {
    for (int p = 0; p < (capacity + kPagePositions - 1) / kPagePositions; ++p)
      for (auto& list : *pages) list.insert(list.begin() + p / 2, page_count++);
    for (auto& list : *pages) tables.push_back({list.data(), static_cast<int32_t>(list.size())});
  }
  void add(int seq, int first, int count) {
    spans.push_back({seq, static_cast<int32_t>(positions.size()), count, first, 0});
    for (int i = 0; i < count; ++i) {
      positions.push_back(first + i);
      span_of.push_back(static_cast<int32_t>(spans.size()) - 1);
    }
  }
  /// Sets Span::visible of all rows, by sequence.
  void set_visible(const std::vector<int32_t>& of_sequence) {
    if (of_sequence.empty()) return;
    for (Span& span : spans) span.visible = of_sequence[static_cast<size_t>(span.sequence)];
  }
  /// Without its rows.
  Batch empty() const {
    Batch copy = *this;
    copy.positions.clear();
    copy.span_of.clear();
    copy.spans.clear();
    return copy;
  }
  RunShape shape() const {
    RunShape s;
    s.rows = s.outputs = static_cast<int32_t>(positions.size());
    s.sequences = static_cast<int32_t>(pages->size());
    s.span_count = static_cast<int32_t>(spans.size());
    s.spans = spans.data();
    s.span_of = span_of.data();
    s.tables = tables.data();
    return s;
  }
};

struct Cache {
  Cache(const Batch& batch, bool keys, DType type, int kv_heads, int head_dim) {
    const auto page =
        static_cast<int64_t>(byte_size(type, int64_t{kPagePositions} * kv_heads * head_dim));
    const size_t size = static_cast<size_t>(page * batch.page_count);
    bytes = std::make_shared<AlignedBytes>(size);
    std::fill_n(bytes->data(), size, std::byte{0xff});  // NaN, where nothing was written
    operand = {bytes->data(),       page, kv_heads,
               kv_heads * head_dim, type, keys ? Layout::kKeyPages : Layout::kValuePages};
  }
  std::shared_ptr<AlignedBytes> bytes;
  Operand operand;
};

struct RunWith {
  Target target = Target::kReference;
  int workers = 1;
  bool exact = false;
};

/// Runs one op with several outputs. In each phase the workers run one after the other.
inline void run_all(Op op, const std::vector<Operand>& in, const std::vector<Operand>& outputs,
                    const Attr& attr, const RunShape& shape, RunWith with = {}) {
  Dispatch d;
  std::copy(in.begin(), in.end(), d.in.begin());
  std::copy(outputs.begin(), outputs.end(), d.outputs.begin());
  d.attr = attr;
  const int64_t rows = std::max(shape.rows, shape.outputs);
  const Kernel kernel = choose_kernel(op, d, {with.target, rows, with.exact});
  const RunExtent extent{rows, std::max(1, shape.span_count), with.workers};
  AlignedBytes work(kernel.work != nullptr ? kernel.work(d, extent) : 0);
  // NaN, where a kernel reads what it has not written.
  if (kernel.work != nullptr) std::fill_n(work.data(), kernel.work(d, extent), std::byte{0xff});
  d.work = work.data();
  const size_t scratch = kernel.scratch != nullptr ? kernel.scratch(d, extent) : 0;
  std::vector<AlignedBytes> own(static_cast<size_t>(with.workers), AlignedBytes(scratch));
  for (const KernelFn phase : kernel.phases)
    for (int i = 0; phase != nullptr && i < with.workers; ++i)
      phase(d, shape, {i, with.workers, own[static_cast<size_t>(i)].data()});
}

inline void run(Op op, const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                const RunShape& shape, RunWith with = {}) {
  run_all(op, in, {out}, attr, shape, with);
}

inline void expect_near(const Matrix& a, const Matrix& b, double tolerance, const char* what = "") {
  for (int64_t r = 0; r < a.operand.rows; ++r)
    for (int32_t c = 0; c < a.operand.cols; ++c)
      ASSERT_NEAR(a[r][c], b[r][c], tolerance * (1 + std::abs(b[r][c])))
          << what << " at " << r << ", " << c;
}
inline void expect_same_bits(const Matrix& a, const Matrix& b, const char* what = "") {
  for (int64_t r = 0; r < a.operand.rows; ++r)
    for (int32_t c = 0; c < a.operand.cols; ++c)
      ASSERT_EQ(__builtin_bit_cast(uint32_t, a[r][c]), __builtin_bit_cast(uint32_t, b[r][c]))
          << what << " at " << r << ", " << c << ": " << a[r][c] << " and " << b[r][c];
}

inline RunShape plain_shape(int32_t rows) {
  RunShape s;
  s.rows = s.outputs = rows;
  return s;
}

}  // namespace veery::test
