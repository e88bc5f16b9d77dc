#include "support/cuda/fake_cublas_lt.h"

#include <cstring>

#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"

namespace veery::cuda {
namespace lt {

// The objects that the library's handles point to.
struct Handle_ {};
struct Product_ {
  int sums, scale;
  int32_t transpose_a = 0;
};
struct Layout_ {
  int type;
  uint64_t rows, cols;
  int64_t stride;
};
struct Preference_ {
  uint64_t workspace = 0;
};

}  // namespace lt

namespace {

using lt::Layout;
using lt::Status;

constexpr Status kOk = 0, kInvalid = 7;
constexpr uint64_t kMagic = 0x5eed;

FakeLtState state;

Status fault(std::string what) {
  if (state.fault.empty()) state.fault = std::move(what);
  return kInvalid;
}
template <typename T, typename... Args>
Status create(T** to, Args... args) {
  *to = new T{args...};
  ++state.objects;
  return kOk;
}
template <typename T>
Status destroy(T* object) {
  delete object;
  --state.objects;
  return kOk;
}

int64_t size_of(const lt::Layout_& layout) { return layout.type == lt::kBF16 ? 2 : 4; }
size_t bytes_of(const lt::Layout_& m) {
  return (static_cast<size_t>(m.stride) * (m.cols - 1) + m.rows) * static_cast<size_t>(size_of(m));
}
// Returns whether a matrix is in device memory and aligned to 16 bytes.
bool is_valid_device_matrix(const void* at, const lt::Layout_& m) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0 && m.stride * size_of(m) % 16 == 0 &&
         m.stride >= static_cast<int64_t>(m.rows) && is_on_fake(at, bytes_of(m));
}
// The sizes of the first operand: outputs and inner columns.
uint64_t outputs_of(const lt::Product_& p, const lt::Layout_& a) {
  return p.transpose_a == lt::kTransposed ? a.cols : a.rows;
}
uint64_t inner_of(const lt::Product_& p, const lt::Layout_& a) {
  return p.transpose_a == lt::kTransposed ? a.rows : a.cols;
}
// Returns whether the matrices form a supported product, a^T b + c or a b + c, column-major.
bool fit(const lt::Product_& p, const lt::Layout_& a, const lt::Layout_& b, const lt::Layout_& c,
         const lt::Layout_& d) {
  return p.sums == lt::kSumsF32 && p.scale == lt::kF32 && a.type == lt::kBF16 &&
         b.type == lt::kBF16 && inner_of(p, a) == b.rows && outputs_of(p, a) == d.rows &&
         b.cols == d.cols && c.rows == d.rows && c.cols == d.cols && c.type == d.type &&
         (d.type == lt::kF32 || d.type == lt::kBF16);
}

Status find(lt::Handle, lt::Product p, Layout a, Layout b, Layout c, Layout d,
            lt::Preference preference, int wanted, lt::Found* found, int* count) {
  if (wanted != 1 || preference->workspace == 0 || !fit(*p, *a, *b, *c, *d))
    return fault("mismatched matrices");
  *count = state.searches++ == state.fail_search ? 0 : 1;
  found->status = kOk;
  found->algorithm.data[0] = kMagic;
  return kOk;
}

Status multiply(lt::Handle, lt::Product p, const void* alpha, const void* a_data, Layout a,
                const void* b_data, Layout b, const void* beta, const void* c_data, Layout c,
                void* d_data, Layout d, const lt::Algorithm* algorithm, void* workspace,
                size_t bytes, Stream) {
  if (!fit(*p, *a, *b, *c, *d) || algorithm->data[0] != kMagic) return fault("mismatched matrices");
  if (!is_on_fake(workspace, bytes)) return fault("workspace outside device memory");
  if (!is_valid_device_matrix(a_data, *a) || !is_valid_device_matrix(b_data, *b) ||
      !is_valid_device_matrix(d_data, *d))
    return fault("matrix outside device memory or misaligned");
  float scale = 0, added = 0;
  std::memcpy(&scale, alpha, sizeof scale);
  std::memcpy(&added, beta, sizeof added);
  if (added != 0 && (added != 1 || c->type != lt::kF32 || !is_valid_device_matrix(c_data, *c)))
    return fault("residual outside device memory or misaligned");
  const gpu::MatrixProduct product{
      .weights = static_cast<const uint16_t*>(a_data),
      .x = static_cast<const uint16_t*>(b_data),
      .x_stride = b->stride,
      .out = static_cast<std::byte*>(d_data),
      .out_stride = d->stride,
      .residual = added != 0 ? static_cast<const float*>(c_data) : nullptr,
      .residual_stride = c->stride,
      .rows = static_cast<int32_t>(b->cols),
      .n = static_cast<int32_t>(outputs_of(*p, *a)),
      .k = static_cast<int32_t>(inner_of(*p, *a)),
      .rounded = d->type == lt::kBF16 ? 1 : 0,
      .scale = scale,
      .transposed = p->transpose_a == lt::kTransposed ? 0 : 1,
      .weights_stride = a->stride};
  ++(in_fake_stream([product] { gpu::multiply_on_host(product); }) ? state.recorded : state.begun);
  return kOk;
}

CublasLt make_library() {
  CublasLt l;
  l.create = [](lt::Handle* handle) { return create(handle); };
  l.destroy = [](lt::Handle handle) { return destroy(handle); };
  l.product_create = [](lt::Product* to, int sums, int scale) { return create(to, sums, scale); };
  l.product_set = [](lt::Product product, int what, const void* value, size_t size) {
    if (what != lt::kTransposeA || size != sizeof product->transpose_a)
      return fault("unknown attribute");
    return std::memcpy(&product->transpose_a, value, size), kOk;
  };
  l.product_destroy = [](lt::Product product) { return destroy(product); };
  l.layout_create = [](Layout* to, int type, uint64_t rows, uint64_t cols, int64_t stride) {
    return create(to, type, rows, cols, stride);
  };
  l.layout_destroy = [](Layout layout) { return destroy(layout); };
  l.preference_create = [](lt::Preference* to) { return create(to); };
  l.preference_set = [](lt::Preference preference, int what, const void* value, size_t size) {
    if (what != lt::kMostWorkspace || size != sizeof preference->workspace)
      return fault("unknown preference");
    return std::memcpy(&preference->workspace, value, size), kOk;
  };
  l.preference_destroy = [](lt::Preference preference) { return destroy(preference); };
  l.find = find;
  l.multiply = multiply;
  return l;
}

}  // namespace

FakeLtState& fake_lt_state() { return state; }
const CublasLt& fake_cublas_lt() {
  static const CublasLt library = make_library();
  state = {};
  return library;
}

}  // namespace veery::cuda
