#include "tensor/node.h"

#include <algorithm>

#include "kernels/tensor/element_program.h"
#include "tensor/async.h"
#include "tensor/devices.h"
#include "tensor/runtime.h"

namespace veery::tensor {
namespace {

constexpr bool types_agree() {
  constexpr std::pair<Dtype, ElementType> kPairs[] = {
      {Dtype::kBool, ElementType::kBool}, {Dtype::kU8, ElementType::kU8},
      {Dtype::kI8, ElementType::kI8},     {Dtype::kI32, ElementType::kI32},
      {Dtype::kU32, ElementType::kU32},   {Dtype::kI64, ElementType::kI64},
      {Dtype::kF16, ElementType::kF16},   {Dtype::kBF16, ElementType::kBF16},
      {Dtype::kF32, ElementType::kF32},   {Dtype::kF64, ElementType::kF64}};
  for (const auto& [type, element] : kPairs)
    if (element_type(type) != element) return false;
  return std::size(kPairs) == kElementTypes;
}
static_assert(types_agree());

thread_local int keeping_inputs = 0;
thread_local std::vector<std::weak_ptr<Node>> kept_nodes;

}  // namespace

std::string_view name(Dtype type) { return info(element_type(type)).name; }
size_t byte_size(Dtype type) { return static_cast<size_t>(info(element_type(type)).bytes); }

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (info(element_type(a)).kind != info(element_type(b)).kind)
    return info(element_type(a)).kind > info(element_type(b)).kind ? a : b;
  if (is_float(a))
    return byte_size(a) == byte_size(b) ? Dtype::kF32 : byte_size(a) > byte_size(b) ? a : b;
  const bool signed_a = info(element_type(a)).is_signed, signed_b = info(element_type(b)).is_signed;
  if (signed_a == signed_b) return byte_size(a) > byte_size(b) ? a : b;
  const Dtype with_sign = signed_a ? a : b, without = signed_a ? b : a;
  if (byte_size(with_sign) > byte_size(without)) return with_sign;
  return without == Dtype::kU8 ? Dtype::kI32 : Dtype::kI64;  // a wider one with a sign
}

std::shared_ptr<Buffer> Buffer::allocate(size_t bytes) {
  DeviceState& device = current_device();
  std::byte* data = device.memory().allocate(std::max<size_t>(bytes, 1));
  return std::shared_ptr<Buffer>(
      new Buffer(data, device, false, [data, &device] { device.release(data); }));
}
std::shared_ptr<Buffer> Buffer::borrow(std::byte* data, std::function<void()> release) {
  return std::shared_ptr<Buffer>(new Buffer(data, cpu_device(), true, std::move(release)));
}
Buffer::~Buffer() {
  if (release_) release_();
}

std::vector<Tensor> Operation::vjp(std::span<const Tensor>, std::span<const Tensor>,
                                   std::span<const Tensor>, const std::vector<bool>&) const {
  fail(ErrorKind::kUnsupported, "{} has no derivative", name());
}
void Operation::add_vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                        std::span<const Tensor> cotangents, const std::vector<bool>& wanted,
                        Derivatives& sums) const {
  const std::vector<Tensor> made = vjp(in, out, cotangents, wanted);
  for (size_t i = 0; i < made.size(); ++i)
    if (wanted[i] && made[i]) sums.add(in[i], made[i]);
}
std::vector<Tensor> Operation::jvp(std::span<const Tensor>, std::span<const Tensor>,
                                   std::span<const Tensor>) const {
  fail(ErrorKind::kUnsupported, "{} has no derivative", name());
}

std::vector<Tensor> Operation::batch(const Batch&, std::span<const Spec>) const {
  fail(ErrorKind::kUnsupported, "vmap: {} has no rule for a batch", name());
}

Tensor Batch::with_batch(size_t i) const {
  return mapped_[i] ? in_[i] : broadcast_to(in_[i], with_first(size_, in_[i].shape()));
}

// A chain of nodes is released in a loop; the recursion of destructors would exhaust the stack.
Node::~Node() {
  thread_local std::vector<Tensor>* pending = nullptr;
  if (pending != nullptr) {
    for (Tensor& input : inputs) pending->push_back(std::move(input));
    return;
  }
  std::vector<Tensor> own = std::move(inputs);
  pending = &own;
  while (!own.empty()) {
    const Tensor last = std::move(own.back());
    own.pop_back();
  }
  pending = nullptr;
}

Tensor make(std::shared_ptr<const Operation> operation, std::vector<Tensor> inputs, Spec spec) {
  check_shape(operation->name(), spec.shape);
  auto node = std::make_shared<Node>();
  node->device = &place_inputs(operation->name(), inputs);
  node->operation = std::move(operation);
  node->inputs = std::move(inputs);
  node->specs.push_back(std::move(spec));
  return {std::move(node), 0};
}

std::vector<Tensor> make_all(std::shared_ptr<const Operation> operation, std::vector<Tensor> inputs,
                             std::vector<Spec> specs) {
  for (const Spec& spec : specs) check_shape(operation->name(), spec.shape);
  auto node = std::make_shared<Node>();
  node->device = &place_inputs(operation->name(), inputs);
  node->operation = std::move(operation);
  node->inputs = std::move(inputs);
  node->specs = std::move(specs);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < node->specs.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

std::vector<Tensor> make_batched(std::shared_ptr<const Operation> operation, const Batch& in,
                                 std::span<const Spec> out) {
  std::vector<Tensor> inputs;
  std::vector<Spec> specs;
  for (size_t i = 0; i < in.count(); ++i) inputs.push_back(in.with_batch(i));
  for (const Spec& spec : out) specs.push_back({with_first(in.size(), spec.shape), spec.dtype});
  return make_all(std::move(operation), std::move(inputs), std::move(specs));
}

std::vector<Tensor> make_for_each(const std::shared_ptr<const Operation>& operation,
                                  const Batch& in, std::span<const Spec> out) {
  std::vector<std::vector<Tensor>> parts(out.size());
  for (int64_t sample = 0; sample < in.size(); ++sample) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < in.count(); ++i)
      inputs.push_back(in.is_mapped(i) ? squeeze(slice(in[i], {{{sample, sample + 1, 1}}}), {0})
                                       : in[i]);
    const std::vector<Tensor> made =
        make_all(operation, std::move(inputs), {out.begin(), out.end()});
    for (size_t i = 0; i < made.size(); ++i) parts[i].push_back(made[i]);
  }
  std::vector<Tensor> result;
  for (size_t i = 0; i < out.size(); ++i)
    result.push_back(in.size() > 0 ? stack(parts[i])
                                   : zeros(with_first(0, out[i].shape), out[i].dtype));
  return result;
}

Tensor make_leaf(Spec spec, Data data) {
  auto node = std::make_shared<Node>();
  node->specs.push_back(std::move(spec));
  node->device = &data.buffer->device();
  node->data.push_back(std::move(data));
  node->ready = true;
  return {std::move(node), 0};
}

KeepInputs::KeepInputs() {
  if (keeping_inputs++ == 0) wait_for_jobs();  // transforms read inputs, which jobs drop
}
KeepInputs::~KeepInputs() {
  if (--keeping_inputs > 0) return;
  for (const std::weak_ptr<Node>& kept : std::exchange(kept_nodes, {}))
    if (const std::shared_ptr<Node> node = kept.lock()) node->inputs.clear();
}
bool KeepInputs::active() { return keeping_inputs > 0; }
void KeepInputs::remember(const std::shared_ptr<Node>& node) { kept_nodes.push_back(node); }

Data new_data(const Spec& spec) {
  return {Buffer::allocate(static_cast<size_t>(element_count(spec.shape)) * byte_size(spec.dtype)),
          0, contiguous_strides(spec.shape)};
}

bool is_valid(const Shape& shape) {
  int64_t bytes = 8;  // of the widest type
  bool valid = shape.size() <= kMaxTensorRank;
  for (const int64_t size : shape)
    valid =
        valid && size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  return valid;
}

void check_shape(std::string_view function, const Shape& shape) {
  if (!is_valid(shape))
    fail(ErrorKind::kInput,
         "{}: invalid shape {}, expected at most {} dimensions and 2^60 elements", function,
         text(shape), kMaxTensorRank);
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
  return text + "]";
}

Shape with_first(int64_t size, const Shape& shape) {
  Shape result{size};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

Shape broadcast(std::string_view function, const Shape& a, const Shape& b) {
  Shape to(std::max(a.size(), b.size()));
  for (size_t i = 0; i < to.size(); ++i) {  // from the last dimension on
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(ErrorKind::kInput, "{}: shapes {} and {} cannot be broadcast", function, text(a),
           text(b));
    to[to.size() - 1 - i] = x == 1 ? y : x;
  }
  return to;
}

int axis_of(std::string_view function, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    fail(ErrorKind::kInput, "{}: axis {} of a tensor with {} dimensions", function, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int> axes_of(std::string_view function, const Axes& axes, int rank) {
  std::vector<int> found;
  if (axes.empty())
    for (int i = 0; i < rank; ++i) found.push_back(i);
  for (const int axis : axes) found.push_back(axis_of(function, axis, rank));
  std::sort(found.begin(), found.end());
  if (std::adjacent_find(found.begin(), found.end()) != found.end())
    fail(ErrorKind::kInput, "{}: an axis occurs twice", function);
  return found;
}

void require(std::string_view function, const Tensor& x) {
  if (!x) fail(ErrorKind::kInput, "{}: an argument is no tensor", function);
}

}  // namespace veery::tensor
