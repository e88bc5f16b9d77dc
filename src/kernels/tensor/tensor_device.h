// tensor_device.h: the operations of tensors on a device with memory of its own.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "device/memory_pool.h"
#include "kernels/tensor/element_program.h"

namespace veery {

/// Matrices of a batch: a [rows][inner] b [inner][columns]. Strides are in elements.
struct BatchedMatmul {
  ElementType type = ElementType::kF32;  ///< of a, b and out: a type of floats
  int64_t rows = 0, columns = 0, inner = 0;
  std::span<const int64_t> batch;  ///< shape
  const std::byte *a = nullptr, *b = nullptr;
  /// The strides of the batch, then of rows, then of columns.
  std::span<const int64_t> a_strides, b_strides;
  std::byte* out = nullptr;  ///< contiguous
};

/// Contiguous elements around one axis: x [outer][from][inner], out [outer][to][inner].
struct IndexedLines {
  ElementType type = ElementType::kF32;
  int64_t outer = 1, from = 1, to = 1, inner = 1;
  const std::byte* x = nullptr;
  const int64_t* indices = nullptr;  ///< [to], or [outer][to][inner] if `along`
  bool along = false;
  std::byte* out = nullptr;
};

/// Computes in the device's memory, in the order of the calls. Calls return before the work is
/// done, except download() and wait(). Not thread-safe. Device errors are thrown as kIo.
class TensorDevice {
 public:
  virtual ~TensorDevice() = default;
  virtual std::string description() const = 0;
  /// Memory that is released may be reused at once, because later work comes after earlier work.
  virtual MemoryPool& memory() = 0;
  /// `host` may change after the call.
  virtual void upload(std::byte* to, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const std::byte* from, size_t bytes) = 0;
  /// Waits for all work. Throws kInput if an index was outside of its axis since the last call.
  virtual void wait() = 0;

  /// Runs a program. Returns false, and does nothing, if it is too long for the device.
  virtual bool run(const ElementProgram& program) = 0;
  virtual void matmul(const BatchedMatmul& problem) = 0;
  /// out = x at the indices. Negative ones count from the end. `function`: for messages; a literal.
  virtual void take(std::string_view function, const IndexedLines& lines) = 0;
  /// x [outer][to][inner] is added to out [outer][from][inner] at the indices, in their order; each
  /// element of `out` by one thread.
  virtual void scatter_add(std::string_view function, const IndexedLines& lines) = 0;
  /// Running sums or products of `lines.outer * lines.inner` lines of `from` elements, in order.
  virtual void cumulate(const IndexedLines& lines, bool product) = 0;
  /// Indices (i64) of the elements of each line in ascending or descending order, equal ones in
  /// theirs.
  virtual void argsort(const IndexedLines& lines, bool descending) = 0;
  /// The index of the first least or greatest element of each line, of NaN if there is one.
  virtual void argreduce(const IndexedLines& lines, bool largest) = 0;
  /// Philox numbers of a stream, as src/tensor/functions/random.cc makes them. `key`: 2 numbers.
  virtual void random_bits(const uint32_t* key, uint32_t stream, uint32_t* out, int64_t count) = 0;
  /// first + i * step: i64, or f64.
  virtual void sequence(int64_t first, int64_t step, int64_t* out, int64_t count) = 0;
  virtual void sequence(double first, double step, double* out, int64_t count) = 0;
};

}  // namespace veery
