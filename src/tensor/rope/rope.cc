#include "kernels/cpu/tensor/rope.h"

#include <cmath>
#include <veery/tensor_rope.hpp>

#include "model/config.h"
#include "tensor/lines.h"
#include "tensor/node.h"
#include "tensor/runtime.h"
#include "tensor/views.h"

namespace veery::tensor::fast {
namespace {

// The dimensions of x, brought to four.
enum Axis : size_t { kBatch, kFirst, kSecond, kDim };

/// Inputs: x [batch, heads, tokens, head_dim] or [batch, tokens, heads, head_dim], positions
/// [axes, batch, tokens] i32.
class Rope : public Operation {
 public:
  Rope(std::shared_ptr<const RopeTable> table, RopeLayout layout, bool back)
      : table_(std::move(table)), layout_(layout), back_(back) {}
  std::string_view name() const override { return "rope"; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {again(cotangents.front(), in[1], !back_), {}};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {tangents.front() ? again(tangents.front(), in[1], back_) : Tensor{}};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const Rope*>(&other);
    return same != nullptr && *table_ == *same->table_ && layout_ == same->layout_ &&
           back_ == same->back_;
  }

 private:
  Tensor again(const Tensor& x, const Tensor& positions, bool back) const {
    return make(Rope(table_, layout_, back), {x, positions}, {x.shape(), x.dtype()});
  }
  RopeHeads heads(const Operand& x) const {
    const Strides& strides = x.data->strides;
    const bool heads_first = layout_ == RopeLayout::kHeadsFirst;
    return {x.first(), strides[kBatch], strides[heads_first ? kSecond : kFirst],
            strides[heads_first ? kFirst : kSecond]};
  }

  std::shared_ptr<const RopeTable> table_;
  RopeLayout layout_;
  bool back_;
};

std::vector<Data> Rope::evaluate(std::span<const Operand> in, std::span<const Spec> out) const {
  const Spec& spec = out.front();
  const Shape& shape = spec.shape;
  const bool heads_first = layout_ == RopeLayout::kHeadsFirst;
  const bool has_rows = in[0].data->strides[kDim] == 1;
  const Data x = has_rows ? *in[0].data : contiguous(in[0], spec.dtype);
  const Data positions = contiguous(in[1], Dtype::kI32);
  Data data = new_data(spec);
  const Operand from{&spec, &x}, to{&spec, &data};
  RopeProblem problem{.type = element_type(spec.dtype),
                      .batch = shape[kBatch],
                      .tokens = shape[heads_first ? kSecond : kFirst],
                      .heads = shape[heads_first ? kFirst : kSecond],
                      .head_dim = shape[kDim],
                      .in = heads(from),
                      .out = heads(to),
                      .back = back_};
  const int64_t axes = in[1].spec->shape.front();
  const auto* first = elements<const int32_t>(positions);
  for (int64_t axis = 0; axis < 4; ++axis)
    problem.positions[static_cast<size_t>(axis)] =
        first + (axis < axes ? axis : 0) * problem.batch * problem.tokens;
  Runtime& runtime = Runtime::get();
  veery::rope(problem, *table_, runtime.target(), runtime.pool());
  return {std::move(data)};
}

// Samples as entries of a larger batch.
std::vector<Tensor> Rope::batch(const Batch& in, std::span<const Spec> out) const {
  const Shape& shape = out.front().shape;
  const Tensor positions = moveaxis(in.with_batch(1), 0, 1);  // [axes, samples, batch, tokens]
  const Tensor merged =
      reshape(positions, {positions.dim(0), in.size() * shape[kBatch], positions.dim(-1)});
  return {part_batches(again(merge_batches(in.with_batch(0)), merged, back_), in.size(), shape)};
}

veery::RopeMode mode_of(RopeMode mode) {
  switch (mode) {
    case RopeMode::kNeox: return veery::RopeMode::kNeox;
    case RopeMode::kInterleaved: return veery::RopeMode::kInterleaved;
    case RopeMode::kMrope: return veery::RopeMode::kMrope;
    case RopeMode::kImrope: return veery::RopeMode::kImrope;
    case RopeMode::kVision: return veery::RopeMode::kVision;
  }
  fail(ErrorKind::kInput, "rope: mode is {}, expected one of RopeMode", static_cast<int>(mode));
}
bool has_axes(RopeMode mode) { return mode != RopeMode::kNeox && mode != RopeMode::kInterleaved; }

std::shared_ptr<const RopeTable> table_of(const RopeOptions& options, int64_t head_dim) {
  const double usual =
      options.scaling == RopeScaling::kYarn ? yarn_magnitude(options.factor, 1) : 1;
  const RopeParameters parameters{
      .head_dim = head_dim,
      .rope_dim = options.rope_dim == 0 ? head_dim : options.rope_dim,
      .mode = mode_of(options.mode),
      .pairing = static_cast<veery::RopePairing>(options.pairing),
      .sections = options.sections,
      .angles = {.theta = options.theta_base,
                 .scaling = static_cast<veery::RopeScaling>(options.scaling),
                 .factor = options.factor,
                 .low_freq_factor = options.low_freq_factor,
                 .high_freq_factor = options.high_freq_factor,
                 .beta_fast = options.beta_fast,
                 .beta_slow = options.beta_slow,
                 .truncate = options.truncate,
                 .attention_factor = options.attention_factor.value_or(usual),
                 .original_context = options.original_context},
      .divisors = options.frequency_factors};
  if (const std::string wrong = invalid_rope(parameters); !wrong.empty())
    fail(ErrorKind::kInput, "rope: {}", wrong);
  return std::make_shared<const RopeTable>(parameters);
}

/// The sizes of x.
struct Sizes {
  int64_t batch = 1, heads = 1, tokens = 1, head_dim = 1;

  Sizes(const Tensor& x, RopeLayout layout) : head_dim(x.dim(-1)) {
    const bool heads_first = layout == RopeLayout::kHeadsFirst;
    tokens = x.dim(heads_first ? -2 : -3);
    if (x.rank() > 2) heads = x.dim(heads_first ? -3 : -2);
    for (int axis = 0; axis < x.rank() - 3; ++axis) batch *= x.dim(axis);
  }
};

// The positions as [axes, batch, tokens] i32.
Tensor positions_of(const Tensor& positions, const Sizes& x, RopeMode mode) {
  Shape rows = positions.shape();
  int64_t axes = 1;
  if (has_axes(mode) && rows.size() > 1) {
    axes = rows.front();
    rows.erase(rows.begin());
  }
  const bool for_all = rows == Shape{x.tokens} || rows == Shape{1, x.tokens};
  const bool for_each = rows == Shape{x.batch, x.tokens} || rows == Shape{x.batch * x.tokens};
  const bool has_right_axes = axes == 3 || axes == 4 || rows.size() == positions.shape().size();
  if ((!for_all && !for_each) || !has_right_axes)
    fail(ErrorKind::kInput, "rope: positions of shape {}, expected [{}], [{}, {}] or [{}]{}",
         text(positions.shape()), x.tokens, x.batch, x.tokens, x.batch * x.tokens,
         has_axes(mode) ? ", with 3 or 4 axes in front if there is more than one dimension" : "");
  const Tensor split =
      reshape(astype(positions, Dtype::kI32), {axes, for_all ? 1 : x.batch, x.tokens});
  return broadcast_to(split, {axes, x.batch, x.tokens});
}

void check_x(const Tensor& x, RopeLayout layout) {
  require("rope", x);
  if (layout != RopeLayout::kHeadsFirst && layout != RopeLayout::kTokensFirst)
    fail(ErrorKind::kInput, "rope: layout is {}, expected one of RopeLayout",
         static_cast<int>(layout));
  if (!is_float(x.dtype()))
    fail(ErrorKind::kInput, "rope: x is {}, expected floats", name(x.dtype()));
  const int least = layout == RopeLayout::kHeadsFirst ? 2 : 3;
  if (x.rank() < least)
    fail(ErrorKind::kInput, "rope: x has shape {}, expected {} dimensions or more", text(x.shape()),
         least);
}

}  // namespace

Tensor rope(const Tensor& x, const Tensor& positions, const RopeOptions& options) {
  check_x(x, options.layout);
  require("rope", positions);
  if (!is_integer(positions.dtype()))
    fail(ErrorKind::kInput, "rope: positions are {}, expected integers", name(positions.dtype()));
  const Sizes sizes(x, options.layout);
  std::shared_ptr<const RopeTable> table = table_of(options, sizes.head_dim);
  const Tensor places = positions_of(positions, sizes, options.mode);
  Shape shape{sizes.batch, sizes.heads, sizes.tokens, sizes.head_dim};
  if (options.layout == RopeLayout::kTokensFirst) std::swap(shape[kFirst], shape[kSecond]);
  const Tensor y = make(Rope(std::move(table), options.layout, false), {reshape(x, shape), places},
                        {shape, x.dtype()});
  return reshape(y, x.shape());
}

Tensor rope(const Tensor& x, int64_t offset, const RopeOptions& options) {
  check_x(x, options.layout);
  const int64_t tokens = Sizes(x, options.layout).tokens;
  if (offset < INT32_MIN || offset > INT32_MAX || tokens > INT32_MAX - offset + 1)
    fail(ErrorKind::kInput, "rope: offset is {} with {} tokens, expected positions of 32 bits",
         offset, tokens);
  const auto start = static_cast<double>(offset);
  return rope(x, arange(start, start + static_cast<double>(tokens)), options);
}

}  // namespace veery::tensor::fast
