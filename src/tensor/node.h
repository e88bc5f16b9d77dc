// node.h: the graph of tensors: nodes, the operations that make them, and their data.
#pragma once
#include <fmt/core.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <veery/tensor.hpp>

#include "kernels/tensor/element_type.h"

namespace veery::tensor {

using Strides = std::vector<int64_t>;  ///< in elements

/// Memory of a device or of a caller. Thread-safe to share.
class Buffer {
 public:
  /// Undefined contents, on the current device (devices.h). Throws kLimit.
  static std::shared_ptr<Buffer> allocate(size_t bytes);
  /// Memory of the host.
  static std::shared_ptr<Buffer> borrow(std::byte* data, std::function<void()> release);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  std::byte* data() const { return data_; }
  DeviceState& device() const { return device_; }
  bool is_borrowed() const { return is_borrowed_; }

 private:
  Buffer(std::byte* data, DeviceState& device, bool is_borrowed, std::function<void()> release)
      : data_(data), device_(device), is_borrowed_(is_borrowed), release_(std::move(release)) {}
  std::byte* data_;
  DeviceState& device_;
  bool is_borrowed_;
  std::function<void()> release_;
};

struct Spec {
  Shape shape;
  Dtype dtype = Dtype::kF32;
  bool operator==(const Spec&) const = default;
};

/// The elements of an evaluated tensor: element i is at offset + i * strides.
struct Data {
  std::shared_ptr<Buffer> buffer;
  int64_t offset = 0;  ///< in elements
  Strides strides;

  explicit operator bool() const { return buffer != nullptr; }
};

/// The operands of an operation, evaluated.
struct Operand {
  const Spec* spec = nullptr;
  const Data* data = nullptr;
  std::byte* first() const {
    return data->buffer->data() + data->offset * static_cast<int64_t>(byte_size(spec->dtype));
  }
};

/// The derivative of each tensor: a sum of cotangents, or a tangent. Empty tensors are zeros.
class Derivatives {
 public:
  /// `depends`: whether a tensor depends on one with respect to which derivatives are taken.
  explicit Derivatives(std::function<bool(const Tensor&)> depends) : depends_(std::move(depends)) {}
  bool depends(const Tensor& x) const { return depends_(x); }
  Tensor& operator[](const Tensor& x) { return sums_[{x.node().get(), x.output()}]; }
  void add(const Tensor& x, const Tensor& t) {
    Tensor& sum = (*this)[x];
    sum = sum ? sum + t : t;
  }

 private:
  std::function<bool(const Tensor&)> depends_;
  std::map<std::pair<const Node*, int>, Tensor> sums_;
};

/// The inputs of an operation in a function that vmap() maps. The batch is the first dimension of
/// mapped inputs; the others have no batch.
class Batch {
 public:
  /// `traced`: the inputs in the function as it was written, for one sample.
  Batch(std::span<const Tensor> in, std::vector<bool> mapped, int64_t size,
        std::span<const Tensor> traced, std::function<bool(const Tensor&)> is_mapped)
      : in_(in),
        mapped_(std::move(mapped)),
        size_(size),
        traced_(traced),
        of_(std::move(is_mapped)) {}

  size_t count() const { return in_.size(); }
  int64_t size() const { return size_; }
  bool is_mapped(size_t i) const { return mapped_[i]; }
  const Tensor& operator[](size_t i) const { return in_[i]; }
  /// Input i with the batch; one that is not mapped is repeated.
  Tensor with_batch(size_t i) const;
  std::span<const Tensor> traced() const { return traced_; }
  /// Whether a tensor of the function depends on the sample.
  bool depends_on_sample(const Tensor& x) const { return of_(x); }

 private:
  std::span<const Tensor> in_;
  std::vector<bool> mapped_;
  int64_t size_;
  std::span<const Tensor> traced_;
  std::function<bool(const Tensor&)> of_;
};

/// Makes tensors of tensors. Immutable; shared by nodes.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  /// Computes all outputs.
  virtual std::vector<Data> evaluate(std::span<const Operand> in,
                                     std::span<const Spec> out) const = 0;
  /// Whether evaluate() also works for operands in the memory of a GPU, which is then the current
  /// device (devices.h): new_data() and element programs do. Otherwise the operation is refused
  /// there.
  virtual bool runs_on_devices() const { return false; }
  /// The products of the cotangents of the outputs with the Jacobian: one tensor for each input, an
  /// empty one for zero. A cotangent is empty if it is zero; one at least is not. Only inputs with
  /// wanted[i] need a result. Throws kUnsupported.
  virtual std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                                  std::span<const Tensor> cotangents,
                                  const std::vector<bool>& wanted) const;
  /// Adds what vjp() returns to the cotangents of the inputs.
  virtual void add_vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                       std::span<const Tensor> cotangents, const std::vector<bool>& wanted,
                       Derivatives& sums) const;
  /// The products of the Jacobian with the tangents of the inputs, with the same convention.
  virtual std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                                  std::span<const Tensor> tangents) const;
  /// The operation on each sample of a batch. `out`: the outputs for one sample. The results have
  /// the batch as first dimension. One input at least is mapped. Throws kUnsupported.
  virtual std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const;
  /// Whether the other operation computes the same for inputs and outputs of any shape, and both
  /// are valid for any. Operations without this rule are not part of shapeless compiled functions.
  virtual bool is_same(const Operation& other) const { return this == &other; }

 protected:
  /// Whether the other operation is an Op whose `fields` are those of this one.
  template <typename Op, typename... Fields>
  static bool has_same(const Op& op, const Operation& other, Fields Op::*... fields) {
    const auto* same = dynamic_cast<const Op*>(&other);
    return same != nullptr && ((op.*fields == same->*fields) && ...);
  }
};

/// An application of an operation. Leaves have data and no operation. Inputs are dropped when the
/// data is there, except during transforms.
struct Node : std::enable_shared_from_this<Node> {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

  std::shared_ptr<const Operation> operation;
  std::vector<Tensor> inputs;
  std::vector<Spec> specs;        ///< of the outputs
  std::vector<Data> data;         ///< of the outputs, empty until evaluated
  int place = -1;                 ///< in the Evaluation that runs; -1: not part of it
  DeviceState* device = nullptr;  ///< nullptr: see device_of()
  /// Whether the data is there, for threads that do not compute it.
  std::atomic<bool> ready = false;

  bool is_evaluated() const { return ready.load(std::memory_order_acquire); }
};

inline const Spec& spec(const Tensor& x) {
  return x.node()->specs[static_cast<size_t>(x.output())];
}
inline const Data& data_of(const Tensor& x) {
  return x.node()->data[static_cast<size_t>(x.output())];
}

/// The device on which a tensor is, or will be computed.
DeviceState& device_of(const Tensor& x);
/// Returns the device of a node with these inputs. Constants that are elsewhere are replaced.
/// Throws kInput if other inputs are on two devices.
DeviceState& place_inputs(std::string_view function, std::vector<Tensor>& inputs);

/// Adds a node. All of `inputs` are tensors. Throws kInput if the shape has too many dimensions, a
/// negative size or more bytes than an address can count.
Tensor make(std::shared_ptr<const Operation> operation, std::vector<Tensor> inputs, Spec spec);
template <typename Op>
Tensor make(Op operation, std::vector<Tensor> inputs, Spec spec) {
  return make(std::shared_ptr<const Operation>(std::make_shared<Op>(std::move(operation))),
              std::move(inputs), std::move(spec));
}
/// All outputs of a node with several.
std::vector<Tensor> make_all(std::shared_ptr<const Operation> operation, std::vector<Tensor> inputs,
                             std::vector<Spec> specs);
/// A node of the operation whose inputs and outputs have the batch as first dimension. `out`: the
/// outputs for one sample.
std::vector<Tensor> make_batched(std::shared_ptr<const Operation> operation, const Batch& in,
                                 std::span<const Spec> out);
/// A node of the operation for each sample, whose outputs are stacked. For operations that add over
/// what would become the batch.
std::vector<Tensor> make_for_each(const std::shared_ptr<const Operation>& operation,
                                  const Batch& in, std::span<const Spec> out);
/// A leaf.
Tensor make_leaf(Spec spec, Data data);

/// While one exists in a thread, evaluation keeps the inputs of nodes. They are dropped when the
/// outermost one ends.
class KeepInputs {
 public:
  KeepInputs();
  ~KeepInputs();
  KeepInputs(const KeepInputs&) = delete;
  KeepInputs& operator=(const KeepInputs&) = delete;
  static bool active();
  /// Remembers a node that was evaluated meanwhile.
  static void remember(const std::shared_ptr<Node>& node);
};

// Types.
constexpr ElementType element_type(Dtype type) { return static_cast<ElementType>(type); }
constexpr bool is_float(Dtype type) { return veery::is_float(element_type(type)); }
constexpr bool is_integer(Dtype type) { return veery::is_integer(element_type(type)); }

/// Contiguous memory for all elements, on the current device. Throws kLimit.
Data new_data(const Spec& spec);

// Shapes.
bool is_valid(const Shape& shape);                                ///< whether make() accepts it
void check_shape(std::string_view function, const Shape& shape);  ///< throws as make() does
int64_t element_count(const Shape& shape);
Strides contiguous_strides(const Shape& shape);
std::string text(const Shape& shape);  ///< "[2, 3]"
/// The shape that two shapes are broadcast to. Throws kInput, naming the function.
Shape broadcast(std::string_view function, const Shape& a, const Shape& b);
/// `shape` with a dimension before the others.
Shape with_first(int64_t size, const Shape& shape);
/// An axis counted from the front. Throws kInput.
int axis_of(std::string_view function, int axis, int rank);
/// Axes counted from the front, ascending; all if `axes` is empty. Throws kInput for doubles.
std::vector<int> axes_of(std::string_view function, const Axes& axes, int rank);

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}
/// Throws kInput if x is not a tensor.
void require(std::string_view function, const Tensor& x);

}  // namespace veery::tensor
