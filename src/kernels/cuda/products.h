// products.h: executes MatrixProduct launches with cuBLASLt (relaxed mode).
#pragma once
#include <map>
#include <span>
#include <tuple>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gpu/gpu.h"

namespace veery::cuda {

/// Not thread-safe. Callers make the machine's context current.
class Products {
 public:
  /// The library and the machine must outlive this object. Throws kIo if the library fails, kLimit
  /// if there is not enough memory for its workspace.
  Products(const CublasLt& library, gpu::Machine& machine);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  /// Enqueues a product. Throws kIo if the library has no algorithm for it.
  void multiply(const gpu::MatrixProduct& product, Stream stream);
  /// Runs each product whose shape is new once, because the library may load kernels on first use,
  /// which is not permitted during stream capture. Leaves `out` undefined.
  void warm(std::span<const gpu::Launch> launches, Stream stream);

 private:
  /// Rows, outputs, columns; row strides of x, out and residual; whether out is bf16; whether there
  /// is a residual; whether the weights are transposed; their stride.
  using Key =
      std::tuple<int32_t, int32_t, int32_t, int64_t, int64_t, int64_t, bool, bool, bool, int64_t>;
  struct Prepared {
    lt::Product product = nullptr;
    lt::Layout weights = nullptr, x = nullptr, out = nullptr, residual = nullptr;
    lt::Algorithm algorithm{};
    bool warm = false;
  };
  static Key key_of(const gpu::MatrixProduct& product);
  Prepared& prepared_for(const gpu::MatrixProduct& product);
  void make(const gpu::MatrixProduct& product, Prepared& prepared) const;
  void choose_algorithm(const gpu::MatrixProduct& product, Prepared& prepared) const;
  void release(const Prepared& prepared) const;

  const CublasLt& library_;
  Memory workspace_;
  lt::Handle handle_ = nullptr;
  std::map<Key, Prepared> prepared_;
};

}  // namespace veery::cuda
