#include "kernels/cuda/products.h"

#include "base/error.h"

namespace veery::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;  // what cuBLAS recommends for Hopper

}  // namespace

Products::Products(const CublasLt& library, gpu::Machine& machine)
    : library_(library), workspace_(machine.allocate(kWorkspace)) {
  library_.check(library_.create(&handle_), "starting to use the library");
}

Products::~Products() {
  for (const auto& [form, made] : made_) release(made);
  library_.destroy(handle_);
}

void Products::release(const Made& made) const {
  if (made.product != nullptr) library_.product_destroy(made.product);
  for (const lt::Layout layout : {made.weights, made.x, made.out, made.residual})
    if (layout != nullptr) library_.layout_destroy(layout);
}

Products::Form Products::form_of(const gpu::MatrixProduct& p) {
  return {p.rows,
          p.n,
          p.k,
          p.x_stride,
          p.out_stride,
          p.residual_stride,
          p.rounded != 0,
          p.residual != nullptr};
}

// Its matrices are column after column: out^T = weights x^T.
void Products::make(const gpu::MatrixProduct& p, Made& made) const {
  const auto layout = [&](lt::Layout* to, int type, int64_t rows, int64_t cols, int64_t stride) {
    library_.check(library_.layout_create(to, type, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(cols), stride),
                   "describing a matrix");
  };
  library_.check(library_.product_create(&made.product, lt::kSumsF32, lt::kF32),
                 "describing a product");
  library_.check(
      library_.product_set(made.product, lt::kTransposeA, &lt::kTransposed, sizeof lt::kTransposed),
      "describing a product");
  layout(&made.weights, lt::kBF16, p.k, p.n, p.k);
  layout(&made.x, lt::kBF16, p.k, p.rows, p.x_stride);
  layout(&made.out, p.rounded != 0 ? lt::kBF16 : lt::kF32, p.n, p.rows, p.out_stride);
  if (p.residual != nullptr) layout(&made.residual, lt::kF32, p.n, p.rows, p.residual_stride);
}

void Products::find_algorithm(const gpu::MatrixProduct& p, Made& made) const {
  lt::Wishes wishes = nullptr;
  library_.check(library_.wishes_create(&wishes), "choosing an algorithm");
  lt::Found found{};
  int count = 0;
  const lt::Layout c = p.residual != nullptr ? made.residual : made.out;
  const lt::Status set =
      library_.wishes_set(wishes, lt::kMostWorkspace, &kWorkspace, sizeof kWorkspace);
  const lt::Status status = set != 0 ? set
                                     : library_.find(handle_, made.product, made.weights, made.x, c,
                                                     made.out, wishes, 1, &found, &count);
  library_.wishes_destroy(wishes);
  if (status != 0 || count == 0 || found.status != 0)
    throw Error(ErrorKind::kIo,
                "cublasLt: no algorithm for {} rows of {} columns times {} outputs: status {}",
                p.rows, p.k, p.n, status != 0 ? status : found.status);
  made.algorithm = found.algorithm;
}

Products::Made& Products::made_for(const gpu::MatrixProduct& p) {
  const auto known = made_.find(form_of(p));
  if (known != made_.end()) return known->second;
  Made made;
  try {
    make(p, made);
    find_algorithm(p, made);
  } catch (...) {
    release(made);
    throw;
  }
  return made_[form_of(p)] = made;
}

void Products::multiply(const gpu::MatrixProduct& p, Stream stream) {
  const Made& made = made_for(p);
  const bool added = p.residual != nullptr;
  const float beta = added ? 1 : 0;
  library_.check(
      library_.multiply(handle_, made.product, &p.scale, p.weights, made.weights, p.x, made.x,
                        &beta, added ? static_cast<const void*>(p.residual) : p.out,
                        added ? made.residual : made.out, p.out, made.out, &made.algorithm,
                        workspace_.data(), workspace_.size(), stream),
      "a product");
}

void Products::warm(std::span<const gpu::Launch> launches, Stream stream) {
  for (const gpu::Launch& launch : launches) {
    if (launch.kernel != gpu::KernelId::kMatrixProduct) continue;
    const auto product = launch.as<gpu::MatrixProduct>();
    Made& made = made_for(product);
    if (made.warm) continue;
    multiply(product, stream);
    made.warm = true;
  }
}

}  // namespace veery::cuda
