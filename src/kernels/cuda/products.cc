#include "kernels/cuda/products.h"

#include "base/error.h"

namespace veery::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;  // what cuBLAS recommends for Hopper

}  // namespace

Products::Products(const CublasLt& library, gpu::Machine& machine)
    : library_(library), workspace_(machine.allocate(kWorkspace)) {
  library_.check(library_.create(&handle_), "creating a handle");
}

Products::~Products() {
  for (const auto& [key, prepared] : prepared_) release(prepared);
  library_.destroy(handle_);
}

void Products::release(const Prepared& prepared) const {
  if (prepared.product != nullptr) library_.product_destroy(prepared.product);
  for (const lt::Layout layout : {prepared.weights, prepared.x, prepared.out, prepared.residual})
    if (layout != nullptr) library_.layout_destroy(layout);
}

Products::Key Products::key_of(const gpu::MatrixProduct& p) {
  return {p.rows,
          p.n,
          p.k,
          p.x_stride,
          p.out_stride,
          p.residual_stride,
          p.rounded != 0,
          p.residual != nullptr,
          p.transposed != 0,
          p.stride_of_weights()};
}

// cuBLASLt expects column-major matrices, hence out^T = weights x^T.
void Products::make(const gpu::MatrixProduct& p, Prepared& prepared) const {
  const auto layout = [&](lt::Layout* to, int type, int64_t rows, int64_t cols, int64_t stride) {
    library_.check(library_.layout_create(to, type, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(cols), stride),
                   "describing a matrix");
  };
  library_.check(library_.product_create(&prepared.product, lt::kSumsF32, lt::kF32),
                 "describing a product");
  if (p.transposed != 0) {
    layout(&prepared.weights, lt::kBF16, p.n, p.k, p.stride_of_weights());
  } else {
    library_.check(library_.product_set(prepared.product, lt::kTransposeA, &lt::kTransposed,
                                        sizeof lt::kTransposed),
                   "describing a product");
    layout(&prepared.weights, lt::kBF16, p.k, p.n, p.stride_of_weights());
  }
  layout(&prepared.x, lt::kBF16, p.k, p.rows, p.x_stride);
  layout(&prepared.out, p.rounded != 0 ? lt::kBF16 : lt::kF32, p.n, p.rows, p.out_stride);
  if (p.residual != nullptr) layout(&prepared.residual, lt::kF32, p.n, p.rows, p.residual_stride);
}

void Products::choose_algorithm(const gpu::MatrixProduct& p, Prepared& prepared) const {
  lt::Preference preference = nullptr;
  library_.check(library_.preference_create(&preference), "choosing an algorithm");
  lt::Found found{};
  int count = 0;
  const lt::Layout c = p.residual != nullptr ? prepared.residual : prepared.out;
  const lt::Status set =
      library_.preference_set(preference, lt::kMostWorkspace, &kWorkspace, sizeof kWorkspace);
  const lt::Status status =
      set != 0 ? set
               : library_.find(handle_, prepared.product, prepared.weights, prepared.x, c,
                               prepared.out, preference, 1, &found, &count);
  library_.preference_destroy(preference);
  if (status != 0 || count == 0 || found.status != 0)
    throw Error(
        ErrorKind::kIo,
        "cublasLt: found no algorithm for {} rows of {} columns times {} outputs: status {}",
        p.rows, p.k, p.n, status != 0 ? status : found.status);
  prepared.algorithm = found.algorithm;
}

Products::Prepared& Products::prepared_for(const gpu::MatrixProduct& p) {
  const auto known = prepared_.find(key_of(p));
  if (known != prepared_.end()) return known->second;
  Prepared prepared;
  try {
    make(p, prepared);
    choose_algorithm(p, prepared);
  } catch (...) {
    release(prepared);
    throw;
  }
  return prepared_[key_of(p)] = prepared;
}

void Products::multiply(const gpu::MatrixProduct& p, Stream stream) {
  const Prepared& prepared = prepared_for(p);
  const bool added = p.residual != nullptr;
  const float beta = added ? 1 : 0;
  library_.check(
      library_.multiply(handle_, prepared.product, &p.scale, p.weights, prepared.weights, p.x,
                        prepared.x, &beta, added ? static_cast<const void*>(p.residual) : p.out,
                        added ? prepared.residual : prepared.out, p.out, prepared.out,
                        &prepared.algorithm, workspace_.data(), workspace_.size(), stream),
      "enqueuing a product");
}

void Products::warm(std::span<const gpu::Launch> launches, Stream stream) {
  for (const gpu::Launch& launch : launches) {
    if (launch.kernel != gpu::KernelId::kMatrixProduct) continue;
    const auto product = launch.as<gpu::MatrixProduct>();
    Prepared& prepared = prepared_for(product);
    if (prepared.warm) continue;
    multiply(product, stream);
    prepared.warm = true;
  }
}

}  // namespace veery::cuda
