// tensor.hpp: lazy arrays with automatic differentiation. docs/tensor.md is a guide.
//
// Functions return tensors that are not computed yet. Tensor::eval() and what reads values compute
// them, together with everything that they depend on; chains of element-wise functions and the
// reductions after them run as one pass over memory. Names and semantics follow the Python array
// API standard 2024.12 (https://data-apis.org/array-api/2024.12/) where it has a function.
//
// Errors are exceptions of type veery::tensor::Error, thrown by the call that is wrong: an argument
// that does not fit names the function, the argument, what was found and what was expected. Indices
// outside of an axis and a lack of memory are found by eval(); tensors that were not computed then
// stay as they were.
//
// A tensor is a handle; copies share their data. Threads may share evaluated tensors, but not
// others nor what was computed from those.
#ifndef VEERY_TENSOR_HPP
#define VEERY_TENSOR_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace veery::tensor {

/// Element types. f16 and bf16 are computed in f32; each result is rounded. f64 is computed on the
/// host.
enum class Dtype : uint8_t { kBool, kU8, kI8, kI32, kU32, kI64, kF16, kBF16, kF32, kF64 };
/// "f32"
std::string_view name(Dtype type);
size_t byte_size(Dtype type);
/// The type that results of operands of two types have. Floats of different widths give the wider
/// one, f16 and bf16 give f32; a float and an integer give the float.
Dtype promote(Dtype a, Dtype b);

using Shape = std::vector<int64_t>;  ///< at most 8 dimensions
using Axes = std::vector<int>;       ///< negative ones count from the last

/// A number without a type of its own: it takes the type of the tensor that it meets, except that a
/// float that meets integers gives f32, and an integer that meets bools i32.
class Scalar {
 public:
  Scalar(bool value) : kind_(Kind::kBool), integer_(value ? 1 : 0), real_(integer_) {}  // NOLINT
  Scalar(int value) : Scalar(static_cast<int64_t>(value)) {}                            // NOLINT
  Scalar(int64_t value)                                                                 // NOLINT
      : kind_(Kind::kInteger), integer_(value), real_(static_cast<double>(value)) {}
  Scalar(float value) : Scalar(static_cast<double>(value)) {}  // NOLINT
  Scalar(double value) : kind_(Kind::kFloat), real_(value) {}  // NOLINT

  enum class Kind : uint8_t { kBool, kInteger, kFloat };
  Kind kind() const { return kind_; }
  int64_t integer() const { return integer_; }  ///< of a bool or an integer
  double real() const { return real_; }

 private:
  Kind kind_;
  int64_t integer_ = 0;
  double real_;
};

struct Node;         // src/tensor/node.h
struct DeviceState;  // src/tensor/devices.h

/// Where tensors are and are computed: the CPU, or an NVIDIA GPU.
class Device {
 public:
  Device();  ///< the CPU
  /// "cpu", "cuda:N", or "cuda" for the first GPU, which is opened when it is first named. Throws
  /// kInput for other names and for a number that no GPU has, kUnsupported with the reason if there
  /// is no GPU or the library was built without GPUs.
  explicit Device(std::string_view name);
  const std::string& name() const;  ///< "cuda:0"
  std::string description() const;  ///< "NVIDIA H100 (cuda:0), 79.1 GiB"
  bool operator==(const Device&) const = default;

  DeviceState* state() const { return state_; }
  explicit Device(DeviceState* state) : state_(state) {}

 private:
  DeviceState* state_;
};

class Tensor {
 public:
  Tensor() = default;  ///< no tensor; usable only as the target of an assignment
  /// Copies `values` to a tensor of `shape`, which is empty for a tensor without dimensions.
  template <typename T>
  static Tensor of(std::span<const T> values, Shape shape);
  template <typename T>
  static Tensor of(std::initializer_list<T> values, Shape shape) {
    return of(std::span<const T>(values.begin(), values.size()), std::move(shape));
  }
  /// Copies `values` to a tensor with one dimension.
  template <typename T>
  static Tensor of(std::span<const T> values) {
    return of(values, {static_cast<int64_t>(values.size())});
  }
  template <typename T>
  static Tensor of(std::initializer_list<T> values) {
    return of(std::span<const T>(values.begin(), values.size()));
  }
  /// Copies the elements of `shape` at `data`, contiguous, in row-major order.
  static Tensor copy(const void* data, Shape shape, Dtype type);
  /// Uses memory of the caller, aligned to its elements, without a copy. It must not change;
  /// `release` is called when no tensor uses it any more, by any thread, perhaps during an
  /// evaluation: it must not call functions of this library.
  static Tensor borrow(const void* data, Shape shape, Dtype type, std::function<void()> release);

  explicit operator bool() const { return node_ != nullptr; }
  const Shape& shape() const;
  int64_t dim(int axis) const;  ///< negative axes count from the last
  int rank() const { return static_cast<int>(shape().size()); }
  int64_t size() const;  ///< number of elements
  Dtype dtype() const;
  Device device() const;

  /// Computes the tensor. On a GPU, returns before the work is done; copies to the host wait for
  /// it. Throws kLimit if there is not enough memory.
  void eval() const;
  bool is_evaluated() const;
  /// The value of a tensor with one element. T: bool, int64_t, double or one of their lesser types.
  template <typename T>
  T item() const;
  /// All elements in row-major order, whatever the layout in memory.
  template <typename T>
  std::vector<T> values() const;
  /// Writes all elements to size() * byte_size(dtype()) bytes at `to`.
  void copy_to(void* to) const;
  /// Bytes between neighbours of each dimension, of an evaluated tensor; 0 repeats an element.
  std::vector<int64_t> byte_strides() const;
  /// The first element of an evaluated tensor, in the memory of its device.
  const void* data() const;

  std::string text() const;  ///< type, shape and values, for people

  const std::shared_ptr<Node>& node() const { return node_; }
  int output() const { return output_; }
  Tensor(std::shared_ptr<Node> node, int output) : node_(std::move(node)), output_(output) {}

 private:
  std::shared_ptr<Node> node_;
  int output_ = 0;
};

/// Computes several tensors together.
void eval(std::span<const Tensor> tensors);
/// Starts the computation of tensors and returns. Jobs run one after another, in the order of the
/// calls, on a thread of their own. eval() and what reads values or derives functions wait for all
/// of them, so that the rule for threads is that of other tensors: only the thread that started a
/// job may use its tensors until it is done. A job that fails leaves tensors as they were: eval()
/// computes them again, and throws. In a function that a transform traces it is eval().
void async_eval(std::span<const Tensor> tensors);

enum class ErrorKind : uint8_t {
  kInput,
  kUnsupported,
  kLimit,
  kInternal,
  kFormat,    ///< a file violates its format
  kNotFound,  ///< a file does not exist
  kIo,        ///< the operating system refused to read or write
};
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// ---- memory ----

struct MemoryUse {
  size_t active = 0;  ///< bytes in use
  size_t peak = 0;    ///< the most since the start or reset_peak_memory()
  size_t cached = 0;  ///< released, kept for reuse
};
// Each device has counters and limits of its own.
MemoryUse memory_use(const Device& device = {});
void reset_peak_memory(const Device& device = {});
void set_memory_limit(size_t bytes, const Device& device = {});  ///< of active and cached bytes
void set_cache_limit(size_t bytes, const Device& device = {});
void clear_cache(const Device& device = {});
/// Worker threads, before the first evaluation; 0: the cores that the process may use.
void set_threads(int count);

// ---- devices ----
// A function computes on the device of its operands, which must be the same one for all of them.
// Numbers, and tensors of full(), zeros() and ones() that are not evaluated, go along with the
// others. A function without a kernel for the device throws kUnsupported when it is evaluated.

/// x on another device; x itself if it is there.
Tensor to_device(const Tensor& x, const Device& device);
/// Where tensors without operands are made: Tensor::of(), zeros(), arange(), random::key(). The CPU
/// at first.
void set_default_device(const Device& device);
Device get_default_device();
/// Waits until all work of the device is done. Throws kInput for indices outside of their axis that
/// evaluation has met on the device since it last waited.
void synchronize(const Device& device);

// ---- creation ----

Tensor full(const Shape& shape, Scalar value, Dtype type = Dtype::kF32);
Tensor zeros(const Shape& shape, Dtype type = Dtype::kF32);
Tensor ones(const Shape& shape, Dtype type = Dtype::kF32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
/// start, start + step, ... below `stop` (above it if step < 0).
Tensor arange(double start, double stop, double step = 1, Dtype type = Dtype::kI32);
/// `count` numbers from `start` to `stop`, both included.
Tensor linspace(double start, double stop, int64_t count, Dtype type = Dtype::kF32);
/// Ones on diagonal `k`.
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, int64_t k = 0,
           Dtype type = Dtype::kF32);
Tensor tril(const Tensor& x, int64_t k = 0);  ///< zeros above diagonal `k` of the last two axes
Tensor triu(const Tensor& x, int64_t k = 0);  ///< zeros below it

// ---- types ----

/// x with elements of another type. Floats saturate to integers, NaN gives 0.
Tensor astype(const Tensor& x, Dtype type);

/// The element type of numbers in C++.
template <typename T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return Dtype::kBool;
  if constexpr (std::is_same_v<T, uint8_t>) return Dtype::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return Dtype::kI8;
  if constexpr (std::is_same_v<T, int32_t>) return Dtype::kI32;
  if constexpr (std::is_same_v<T, uint32_t>) return Dtype::kU32;
  if constexpr (std::is_same_v<T, int64_t>) return Dtype::kI64;
  if constexpr (std::is_same_v<T, float>) return Dtype::kF32;
  return Dtype::kF64;
}

/// The elements of a tensor in row-major order, whatever its layout, without a copy if it has type
/// T: `for (const float x : Elements<float>(tensor))`. Evaluates the tensor.
template <typename T>
class Elements {
 public:
  explicit Elements(const Tensor& x) : tensor_(astype(x, dtype_of<T>())) {
    tensor_.eval();
    strides_ = tensor_.byte_strides();
  }
  class Iterator {
   public:
    using value_type = T;
    using difference_type = ptrdiff_t;
    T operator*() const {
      if constexpr (std::is_same_v<T, bool>) return *at_ != std::byte{0};
      T value;
      std::memcpy(&value, at_, sizeof(T));
      return value;
    }
    Iterator& operator++() {
      --left_;
      for (size_t d = of_->strides_.size(); d-- > 0;) {
        at_ += of_->strides_[d];
        const int64_t size = of_->tensor_.shape()[d];
        if (++index_[d] < size) break;
        at_ -= of_->strides_[d] * size;
        index_[d] = 0;
      }
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return left_ == 0; }

   private:
    friend class Elements;
    explicit Iterator(const Elements* of)
        : of_(of),
          at_(static_cast<const std::byte*>(of->tensor_.data())),
          left_(of->tensor_.size()) {}
    const Elements* of_;
    const std::byte* at_;
    int64_t left_;
    std::array<int64_t, 8> index_{};
  };
  Iterator begin() const { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Tensor tensor_;
  std::vector<int64_t> strides_;
};

// ---- element-wise ----
// Operands are broadcast and brought to promote() of their types.

#define VEERY_TENSOR_BINARY(name)                \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, Scalar b);        \
  Tensor name(Scalar a, const Tensor& b);
VEERY_TENSOR_BINARY(add)
VEERY_TENSOR_BINARY(subtract)
VEERY_TENSOR_BINARY(multiply)
VEERY_TENSOR_BINARY(divide)  // floats; integers give f32
VEERY_TENSOR_BINARY(floor_divide)
VEERY_TENSOR_BINARY(remainder)  // has the sign of the divisor
VEERY_TENSOR_BINARY(pow)
VEERY_TENSOR_BINARY(minimum)  // NaN if one is NaN
VEERY_TENSOR_BINARY(maximum)
VEERY_TENSOR_BINARY(atan2)
VEERY_TENSOR_BINARY(hypot)
VEERY_TENSOR_BINARY(copysign)
VEERY_TENSOR_BINARY(logaddexp)  // ln(e^a + e^b)
VEERY_TENSOR_BINARY(equal)
VEERY_TENSOR_BINARY(not_equal)
VEERY_TENSOR_BINARY(less)
VEERY_TENSOR_BINARY(less_equal)
VEERY_TENSOR_BINARY(greater)
VEERY_TENSOR_BINARY(greater_equal)
VEERY_TENSOR_BINARY(logical_and)
VEERY_TENSOR_BINARY(logical_or)
VEERY_TENSOR_BINARY(logical_xor)
VEERY_TENSOR_BINARY(bitwise_and)
VEERY_TENSOR_BINARY(bitwise_or)
VEERY_TENSOR_BINARY(bitwise_xor)
VEERY_TENSOR_BINARY(bitwise_left_shift)
VEERY_TENSOR_BINARY(bitwise_right_shift)
#undef VEERY_TENSOR_BINARY

Tensor logical_not(const Tensor& x);
Tensor bitwise_invert(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor negative(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
// Floats; integers give f32.
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor silu(const Tensor& x);       ///< x sigmoid(x)
Tensor gelu(const Tensor& x);       ///< x (1 + erf(x / sqrt 2)) / 2
Tensor gelu_tanh(const Tensor& x);  ///< by its approximation with tanh
Tensor gelu_fast(const Tensor& x);  ///< x sigmoid(1.702 x)
Tensor softplus(const Tensor& x);   ///< ln(1 + e^x)
// Floats; integers stay as they are.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);  ///< halves to even

Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no);
Tensor where(const Tensor& condition, const Tensor& yes, Scalar no);
Tensor where(const Tensor& condition, Scalar yes, const Tensor& no);
/// min(max(x, low), high)
Tensor clip(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high);

#define VEERY_TENSOR_OPERATOR(symbol, name)                                              \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, Scalar b) { return name(a, b); }        \
  inline Tensor operator symbol(Scalar a, const Tensor& b) { return name(a, b); }
VEERY_TENSOR_OPERATOR(+, add)
VEERY_TENSOR_OPERATOR(-, subtract)
VEERY_TENSOR_OPERATOR(*, multiply)
VEERY_TENSOR_OPERATOR(/, divide)
VEERY_TENSOR_OPERATOR(%, remainder)
VEERY_TENSOR_OPERATOR(<, less)
VEERY_TENSOR_OPERATOR(<=, less_equal)
VEERY_TENSOR_OPERATOR(>, greater)
VEERY_TENSOR_OPERATOR(>=, greater_equal)
VEERY_TENSOR_OPERATOR(&, bitwise_and)
VEERY_TENSOR_OPERATOR(|, bitwise_or)
VEERY_TENSOR_OPERATOR(^, bitwise_xor)
#undef VEERY_TENSOR_OPERATOR
inline Tensor operator-(const Tensor& x) { return negative(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_invert(x); }

// ---- reductions ----
// `axes` empty: all axes. `keep`: reduced axes stay, with size 1.

/// Integers and bools are summed as i64 (u32 too); floats in a fixed order that does not depend on
/// the number of threads.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep = false);
/// The mean squared distance from the mean, over count - correction.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keep = false, double correction = 0);
Tensor std_dev(const Tensor& x, const Axes& axes = {}, bool keep = false, double correction = 0);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep = false);  ///< NaN if one is NaN
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep = false);
/// ln(sum(e^x))
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

// ---- matrix products ----

/// The product over the last axis of `a` and the second to last of `b`, as in numpy: vectors are
/// allowed, other axes are broadcast. Each result is one chain of fused multiply-adds over the
/// inner axis in f32, or f64 for f64; docs/numerics.md has the order for bf16.
Tensor matmul(const Tensor& a, const Tensor& b);

// ---- views: no copy, unless a reshape needs one ----

Tensor reshape(const Tensor& x, const Shape& shape);        ///< one size may be -1
Tensor transpose(const Tensor& x, const Axes& order = {});  ///< empty: reversed
Tensor swapaxes(const Tensor& x, int a, int b);
Tensor moveaxis(const Tensor& x, int from, int to);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor expand_dims(const Tensor& x, int axis);
Tensor squeeze(const Tensor& x, const Axes& axes = {});  ///< empty: all of size 1
Tensor flatten(const Tensor& x);
Tensor flip(const Tensor& x, const Axes& axes = {});

/// start:stop:step of one axis as in Python; an absent bound is the end in the direction of step.
struct Slice {
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
};
/// One slice per axis; axes without one are taken whole.
Tensor slice(const Tensor& x, const std::vector<Slice>& slices);
/// The elements of x in row-major order at offset + i * strides, in elements, whatever the layout
/// of x. They may overlap; derivatives of an element that is read several times are added.
Tensor as_strided(const Tensor& x, const Shape& shape, const std::vector<int64_t>& strides,
                  int64_t offset = 0);

// ---- movement ----

Tensor concatenate(const std::vector<Tensor>& parts, int axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);
std::vector<Tensor> split(const Tensor& x, int64_t parts, int axis = 0);
/// x with slices of it replaced by `update`, which is broadcast to them.
Tensor slice_update(const Tensor& x, const std::vector<Slice>& slices, const Tensor& update);
/// {before, after} for each axis.
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths,
           Scalar value = 0);
Tensor repeat(const Tensor& x, int64_t count, int axis);
Tensor tile(const Tensor& x, const Shape& counts);
Tensor roll(const Tensor& x, int64_t shift, int axis);
/// Differences of neighbours of an axis, `order` times; of bools whether they differ.
Tensor diff(const Tensor& x, int64_t order = 1, int axis = -1);

// ---- indexing ----
// Indices are integers; negative ones count from the end. eval() throws kInput for others outside
// of the axis.

/// Elements `indices` of an axis, which the dimensions of `indices` replace.
Tensor take(const Tensor& x, const Tensor& indices, int axis = 0);
/// x with `updates`, of the shape of take(x, indices, axis), added at `indices`, in their order.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0);
/// y[.., j, ..] = x[.., indices[.., j, ..], ..] along `axis`; the other axes are broadcast.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis = -1);
/// x with `updates` of the shape of `indices` added where take_along_axis() reads.
Tensor scatter_add_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates,
                              int axis = -1);
/// x with `value` where `mask` is true; as where(), with a mask that is broadcast to x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
// The sizes of these depend on values: they evaluate their arguments.
/// The indices of the true (non-zero) elements, one tensor i64 [count] for each dimension, in
/// row-major order.
std::vector<Tensor> nonzero(const Tensor& mask);
/// The elements of `axis` where `mask` [size of the axis] is true; without an axis, those of x,
/// flattened, whose mask has the shape of x.
Tensor compress(const Tensor& x, const Tensor& mask, std::optional<int> axis = {});
/// [.., classes]: 1 at the index, 0 elsewhere; all 0 for an index outside of the classes.
Tensor one_hot(const Tensor& indices, int64_t classes, Dtype type = Dtype::kF32);

// ---- order ----
// NaN counts as the largest number. Equal elements keep their order. Indices are i64.

Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keep = false);  ///< absent: flat
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keep = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
Tensor sort(const Tensor& x, int axis = -1, bool descending = false);
/// The k largest elements in descending order, and their indices.
std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k, int axis = -1);
/// For each value the number of elements of `sorted` [n] that are less, or with `right` not
/// greater.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
struct Unique {
  Tensor values;   ///< [count], ascending; each NaN counts as different
  Tensor indices;  ///< [count] i64: the first occurrence of each in x, flattened
  Tensor inverse;  ///< i64, of the shape of x: the index in `values`
  Tensor counts;   ///< [count] i64
};
/// The different elements of x, which is evaluated.
Unique unique(const Tensor& x);
Tensor cumsum(const Tensor& x, int axis = -1);  ///< integers as i64
Tensor cumprod(const Tensor& x, int axis = -1);

// ---- random numbers ----
// A key is [2] u32. The numbers are a function of key and shape alone (Philox4x32-10; Salmon et
// al., SC 2011): use a key once, and split() it for more. Floats of uniform() have 24 random bits,
// those of other distributions 23.

namespace random {
Tensor key(uint64_t seed);
/// `count` keys: [count, 2].
Tensor split(const Tensor& key, int64_t count = 2);
Tensor bits(const Tensor& key, const Shape& shape);  ///< u32
/// From `low` to below `high`.
Tensor uniform(const Tensor& key, const Shape& shape, double low = 0, double high = 1,
               Dtype type = Dtype::kF32);
Tensor normal(const Tensor& key, const Shape& shape, double mean = 0, double deviation = 1,
              Dtype type = Dtype::kF32);
/// Normally distributed numbers, restricted to [`low`, `high`].
Tensor truncated_normal(const Tensor& key, const Shape& shape, double low, double high,
                        Dtype type = Dtype::kF32);
/// From `low` to below `high`, at most 2^32 numbers. Probabilities are equal within 2^-32.
Tensor randint(const Tensor& key, const Shape& shape, int64_t low, int64_t high,
               Dtype type = Dtype::kI32);
Tensor bernoulli(const Tensor& key, const Tensor& probability);  ///< bool
Tensor gumbel(const Tensor& key, const Shape& shape, Dtype type = Dtype::kF32);
/// Indices drawn with probabilities softmax(logits) along `axis`.
Tensor categorical(const Tensor& key, const Tensor& logits, int axis = -1);
Tensor permutation(const Tensor& key, int64_t count);  ///< of 0 to count - 1
}  // namespace random

// ---- transforms ----

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using ScalarFunction = std::function<Tensor(std::span<const Tensor>)>;

/// Returns the outputs of `fn` and the products of `cotangents`, one for each output, with its
/// Jacobian: one for each of `primals`.
std::pair<std::vector<Tensor>, std::vector<Tensor>> vjp(const Function& fn,
                                                        std::span<const Tensor> primals,
                                                        std::span<const Tensor> cotangents);
/// Returns the outputs of `fn` and the products of its Jacobian with `tangents`, one for each of
/// `primals`.
std::pair<std::vector<Tensor>, std::vector<Tensor>> jvp(const Function& fn,
                                                        std::span<const Tensor> primals,
                                                        std::span<const Tensor> tangents);
struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> gradients;  ///< of the arguments in argnums
};
/// Returns a function that computes `fn`, whose result has one element, and its gradients with
/// respect to arguments `argnums`.
std::function<ValueAndGrad(std::span<const Tensor>)> value_and_grad(ScalarFunction fn,
                                                                    std::vector<int> argnums = {0});
std::function<std::vector<Tensor>(std::span<const Tensor>)> grad(ScalarFunction fn,
                                                                 std::vector<int> argnums = {0});
/// x as a constant: derivatives do not pass it.
Tensor stop_gradient(const Tensor& x);
/// `fn`, whose intermediate results are computed again when derivatives need them instead of being
/// kept.
Function checkpoint(Function fn);

}  // namespace veery::tensor

#endif  // VEERY_TENSOR_HPP
