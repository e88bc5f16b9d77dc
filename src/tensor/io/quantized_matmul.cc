// Products with quantised weights, by the kernels of models.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "device/memory.h"
#include "file/model_file.h"
#include "graph/ops/ops.h"
#include "kernels/cpu/tensor/matmul.h"
#include "tensor/element_group.h"
#include "tensor/io/quantized.h"
#include "tensor/io/stored.h"
#include "tensor/lines.h"
#include "tensor/runtime.h"

namespace veery::tensor {
namespace {

Tensor product(const Tensor& x, const QuantizedTensor& q, bool exact);
Tensor back_product(const Tensor& y, const QuantizedTensor& q);

// Runs a kernel for `rows` token rows on all workers, in memory of the runtime.
void run_kernel(Op op, Dispatch& dispatch, int64_t rows, bool exact) {
  Runtime& runtime = Runtime::get();
  ThreadPool& pool = runtime.pool();
  const Kernel kernel = choose_kernel(op, dispatch, {runtime.target(), rows, exact});
  const RunExtent extent{rows, 1, pool.size()};
  const size_t scratch = aligned(kernel.scratch != nullptr ? kernel.scratch(dispatch, extent) : 0);
  const std::shared_ptr<Buffer> own = Buffer::allocate(scratch * static_cast<size_t>(pool.size()));
  const std::shared_ptr<Buffer> work =
      Buffer::allocate(kernel.work != nullptr ? kernel.work(dispatch, extent) : 0);
  dispatch.work = work->data();
  RunShape shape;
  shape.rows = shape.outputs = static_cast<int32_t>(rows);
  const auto workers = static_cast<size_t>(pool.size());
  std::vector<std::atomic<int32_t>> taken(kernel.phases.size() * workers);
  pool.run([&](int index) {
    Worker worker{index, pool.size(), own->data() + scratch * static_cast<size_t>(index),
                  taken.data()};
    for (const KernelFn phase : kernel.phases) {
      if (phase == nullptr) break;
      phase(dispatch, shape, worker);
      worker.taken += worker.count;
      pool.barrier().wait();
    }
  });
}

// Checks the scales of the rows and packs them in panels.
void pack(QuantizedState& q) {
  const bool packs = can_pack(q.type);
  const auto bytes = static_cast<size_t>(q.rows()) * q.row_bytes();
  const TensorView view{q.name.empty() ? "q" : q.name, q.type, q.shape, {q.blocks, bytes}};
  const std::shared_ptr<Buffer> panels =
      Buffer::allocate(packs ? packed_bytes(q.type, q.rows(), q.columns()) : 0);
  const int64_t count = (q.rows() + kLanes - 1) / kLanes;
  Runtime::get().pool().parallel_for(count, 4, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kLanes, end = std::min(last * kLanes, q.rows());
    check_finite_scales(view, static_cast<size_t>(begin) * q.row_bytes(),
                        static_cast<size_t>(end - begin) * q.row_bytes());
    if (packs) pack_panels(q.type, q.blocks, q.rows(), q.columns(), panels->data(), first, last);
  });
  q.panels = panels;
}

// The weight as kernels read it: in panels, or in rows if the type has none.
veery::Operand weight_of(QuantizedState& q) {
  if (q.panels == nullptr) pack(q);
  veery::Operand weight{
      .rows = q.rows(), .cols = static_cast<int32_t>(q.columns()), .dtype = q.type};
  if (can_pack(q.type)) {
    weight.data = q.panels->data();
    weight.stride = static_cast<int64_t>(panel_bytes(q.type, q.columns()));
    weight.layout = Layout::kPanels;
  } else {
    weight.data = const_cast<std::byte*>(q.blocks);  // NOLINT(*-const-cast) kernels only read it
    weight.stride = static_cast<int64_t>(q.row_bytes());
    weight.layout = Layout::kRowMajor;
  }
  return weight;
}

veery::Operand matrix(const Data& data, int64_t rows, int64_t columns) {
  return {.data = reinterpret_cast<std::byte*>(elements<float>(data)),
          .stride = columns * int64_t{sizeof(float)},
          .rows = rows,
          .cols = static_cast<int32_t>(columns),
          .dtype = DType::kF32,
          .layout = Layout::kRowMajor};
}

// The result in f32 as the type of the output.
Data as_output(Data data, const Spec& wide, const Spec& out) {
  if (wide.dtype == out.dtype) return data;
  const Operand result{&wide, &data};
  return evaluate_one(ElementOp::kCast, {&result, 1}, out);
}

/// An operation on x with a weight, computed in f32.
class WithWeight : public Operation {
 public:
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const final {
    const Data x = contiguous(in.front(), Dtype::kF32);
    const Spec wide{out.front().shape, Dtype::kF32};
    Data y = new_data(wide);
    if (element_count(wide.shape) > 0)
      with_errors(name(), [&] { compute(x, y, element_count(wide.shape) / wide.shape.back()); });
    return {as_output(std::move(y), wide, out.front())};
  }

 protected:
  explicit WithWeight(QuantizedTensor q) : q_(std::move(q)) {}
  const QuantizedTensor& weight() const { return q_; }
  bool has_same_weight(const WithWeight& other) const { return q_.state() == other.q_.state(); }

 private:
  /// x [rows, ..] and y [rows, ..] are contiguous.
  virtual void compute(const Data& x, Data& y, int64_t rows) const = 0;
  QuantizedTensor q_;
};

/// y = x W^T.
class QuantizedMatmul : public WithWeight {
 public:
  QuantizedMatmul(QuantizedTensor q, bool exact) : WithWeight(std::move(q)), exact_(exact) {}
  std::string_view name() const override { return "quantized_matmul"; }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {back_product(cotangents.front(), weight())};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {product(tangents.front(), weight(), true)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {product(in[0], weight(), exact_)};
  }
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const QuantizedMatmul*>(&other);
    return same != nullptr && has_same_weight(*same) && exact_ == same->exact_;
  }

 private:
  void compute(const Data& x, Data& y, int64_t rows) const override {
    QuantizedState& q = *weight().state();
    Dispatch dispatch;
    dispatch.in[FusedLinearIn::kX] = matrix(x, rows, q.columns());
    dispatch.in[FusedLinearIn::kWeight] = weight_of(q);
    dispatch.out() = matrix(y, rows, q.rows());
    dispatch.attr = FusedLinearAttr{};
    run_kernel(op::kFusedLinear, dispatch, rows, exact_);
  }
  bool exact_;
};

/// x = y W, with W decoded to f32: a chain of fused multiply-adds for each piece of rows of W,
/// whose results are added in order.
class QuantizedMatmulBack : public WithWeight {
 public:
  explicit QuantizedMatmulBack(QuantizedTensor q) : WithWeight(std::move(q)) {}
  std::string_view name() const override { return "quantized_matmul_back"; }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {product(cotangents.front(), weight(), true)};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {back_product(tangents.front(), weight())};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {back_product(in[0], weight())};
  }
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const QuantizedMatmulBack*>(&other);
    return same != nullptr && has_same_weight(*same);
  }

 private:
  void compute(const Data& y, Data& x, int64_t rows) const override {
    const QuantizedState& q = *weight().state();
    const int64_t columns = q.columns(), outputs = q.rows(), piece = rows_of_piece(q);
    Runtime& runtime = Runtime::get();
    const Data decoded = new_data({{std::min(piece, outputs), columns}, Dtype::kF32});
    const Spec spec{{rows, columns}, Dtype::kF32};
    const Data sum = outputs > piece ? new_data(spec) : Data{};
    if (outputs == 0) std::memset(x.buffer->data(), 0, static_cast<size_t>(rows * columns) * 4);
    for (int64_t first = 0; first < outputs; first += piece) {
      const int64_t count = std::min(piece, outputs - first);
      decode_rows(q, first, first + count, elements<float>(decoded));
      const Data& to = first == 0 ? x : sum;
      veery::matmul(
          {.type = ElementType::kF32,
           .rows = rows,
           .columns = columns,
           .inner = count,
           .a = {reinterpret_cast<const std::byte*>(elements<float>(y) + first), outputs, 1},
           .b = {decoded.buffer->data(), columns, 1},
           .out = to.buffer->data()},
          runtime.target(), runtime.pool());
      if (first == 0) continue;
      runtime.pool().parallel_for(rows * columns, 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) elements<float>(x)[i] += elements<float>(sum)[i];
      });
    }
  }
};

// x [.., n] as [.., m].
Shape with_last(const Tensor& x, int64_t size) {
  Shape shape = x.shape();
  shape.back() = size;
  return shape;
}

Tensor product(const Tensor& x, const QuantizedTensor& q, bool exact) {
  return make(QuantizedMatmul(q, exact), {x}, {with_last(x, q.shape()[0]), x.dtype()});
}
Tensor back_product(const Tensor& y, const QuantizedTensor& q) {
  return make(QuantizedMatmulBack(q), {y}, {with_last(y, q.shape()[1]), y.dtype()});
}

}  // namespace

Tensor quantized_matmul(const Tensor& x, const QuantizedTensor& q, bool exact) {
  require("quantized_matmul", x);
  require("quantized_matmul", q);
  if (x.dtype() != Dtype::kF32 && x.dtype() != Dtype::kF16 && x.dtype() != Dtype::kBF16)
    fail(ErrorKind::kUnsupported, "quantized_matmul: x of {}, expected f32, f16 or bf16",
         name(x.dtype()));
  if (q.shape().size() != 2 || x.rank() == 0 || x.dim(-1) != q.shape()[1])
    fail(ErrorKind::kInput, "quantized_matmul: shapes {} and {}, expected [.., in] and [out, in]",
         text(x.shape()), text(q.shape()));
  return product(x, q, exact);
}

}  // namespace veery::tensor
