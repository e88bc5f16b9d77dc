// products.h: MatrixProducts by cuBLASLt.
#pragma once
#include <map>
#include <span>
#include <tuple>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gpu/gpu.h"

namespace veery::cuda {

/// Not thread-safe. The machine's context is the current one whenever it is used.
class Products {
 public:
  /// The library and the machine must outlive it. Throws kIo where the library fails, kLimit where
  /// there is no memory for what it works with.
  Products(const CublasLt& library, gpu::Machine& machine);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  /// Puts a product into a stream. Throws kIo where the library has none for it.
  void multiply(const gpu::MatrixProduct& product, Stream stream);
  /// Runs each form of product that is new once: the library may load kernels at the first one,
  /// which a stream that is being recorded does not allow. What is in `out` is then undefined.
  void warm(std::span<const gpu::Launch> launches, Stream stream);

 private:
  /// Rows, outputs, columns; distances of rows of x, out and residual; bf16 out, a residual.
  using Form = std::tuple<int32_t, int32_t, int32_t, int64_t, int64_t, int64_t, bool, bool>;
  struct Made {
    lt::Product product = nullptr;
    lt::Layout weights = nullptr, x = nullptr, out = nullptr, residual = nullptr;
    lt::Algorithm algorithm{};
    bool warm = false;
  };
  static Form form_of(const gpu::MatrixProduct& product);
  Made& made_for(const gpu::MatrixProduct& product);
  void make(const gpu::MatrixProduct& product, Made& made) const;
  void find_algorithm(const gpu::MatrixProduct& product, Made& made) const;
  void release(const Made& made) const;

  const CublasLt& library_;
  Memory workspace_;
  lt::Handle handle_ = nullptr;
  std::map<Form, Made> made_;
};

}  // namespace veery::cuda
