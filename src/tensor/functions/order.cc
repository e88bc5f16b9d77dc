// Functions that compare elements of a line: arg-reductions, sorting, searching; and running sums.
#include <cmath>
#include <numeric>

#include "tensor/elementwise.h"
#include "tensor/lines.h"

namespace veery::tensor {
namespace {

// Whether a comes before b in ascending order; NaN is the largest number.
template <typename T>
bool is_less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(b)) return !std::isnan(a);
  return a < b;
}

/// An operation without a derivative, whose result is indices.
class Indices : public Operation {
 public:
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor>, const std::vector<bool>&) const override {
    return std::vector<Tensor>(in.size());
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }
};

// The shape and type of an output with a batch.
Spec with_batch(const Batch& in, const Spec& spec) {
  return {with_first(in.size(), spec.shape), spec.dtype};
}

/// The index of the first largest or smallest element of each line; of the first NaN if there is
/// one.
class ArgReduce : public Indices {
 public:
  ArgReduce(size_t axis, bool largest) : axis_(axis), largest_(largest) {}
  std::string_view name() const override { return largest_ ? "argmax" : "argmin"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &ArgReduce::axis_, &ArgReduce::largest_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    if (TensorDevice* kernels = current_kernels()) {
      const Data x = contiguous(in[0], in[0].spec->dtype);
      kernels->argreduce(indexed_lines(x, *in[0].spec, axis_, data), largest_);
      return {std::move(data)};
    }
    each_line_of(in[0], axis_, [&](const auto* x, int64_t line, const Lines& lines) {
      elements<int64_t>(data)[line] = best(x, lines.along, lines.inner);
    });
    return {std::move(data)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return {make(ArgReduce(axis_ + 1, largest_), {in[0]}, with_batch(in, out.front()))};
  }

 private:
  template <typename T>
  int64_t best(const T* x, int64_t count, int64_t step) const {
    int64_t found = 0;
    for (int64_t i = 1; i < count; ++i) {
      const T a = x[found * step], b = x[i * step];
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(a)) return found;
        if (std::isnan(b)) return i;
      }
      if (largest_ ? a < b : b < a) found = i;
    }
    return found;
  }
  size_t axis_;
  bool largest_;
};

class ArgSort : public Indices {
 public:
  ArgSort(size_t axis, bool descending) : axis_(axis), descending_(descending) {}
  std::string_view name() const override { return "argsort"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &ArgSort::axis_, &ArgSort::descending_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    if (TensorDevice* kernels = current_kernels()) {
      const Data x = contiguous(in[0], in[0].spec->dtype);
      kernels->argsort(indexed_lines(x, *in[0].spec, axis_, data), descending_);
      return {std::move(data)};
    }
    each_line_of(in[0], axis_, [&](const auto* x, int64_t line, const Lines& lines) {
      std::vector<int64_t> order(static_cast<size_t>(lines.along));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const auto p = x[a * lines.inner], q = x[b * lines.inner];
        return descending_ ? is_less(q, p) : is_less(p, q);
      });
      int64_t* to = elements<int64_t>(data) + lines.first(line);
      for (int64_t i = 0; i < lines.along; ++i) to[i * lines.inner] = order[static_cast<size_t>(i)];
    });
    return {std::move(data)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return {make(ArgSort(axis_ + 1, descending_), {in[0]}, with_batch(in, out.front()))};
  }

 private:
  size_t axis_;
  bool descending_;
};

/// Inputs: sorted [n], values; or sorted [.., n] and values [.., ..] with the same dimensions
/// before.
class SearchSorted : public Indices {
 public:
  explicit SearchSorted(bool right) : right_(right) {}
  std::string_view name() const override { return "searchsorted"; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &SearchSorted::right_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Dtype type = computed_dtype(in[0].spec->dtype);
    const Data sorted = contiguous(in[0], type), values = contiguous(in[1], type);
    Data data = new_data(out.front());
    with_number(type, [&](auto sample) {
      using T = decltype(sample);
      const int64_t count = in[0].spec->shape.back();
      const int64_t lines = element_count({in[0].spec->shape.begin(), in[0].spec->shape.end() - 1});
      const int64_t size = element_count(out.front().shape);
      each_line(size, 32, [&](int64_t i) {
        const T* begin = elements<T>(sorted) + i / (size / lines) * count;
        const T* end = begin + count;
        const T value = elements<T>(values)[i];
        const T* at = right_ ? std::upper_bound(begin, end, value, is_less<T>)
                             : std::lower_bound(begin, end, value, is_less<T>);
        elements<int64_t>(data)[i] = at - begin;
      });
    });
    return {std::move(data)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    const bool is_shared = !in.is_mapped(0) && in[0].rank() == 1;
    return {make(SearchSorted(right_), {is_shared ? in[0] : in.with_batch(0), in.with_batch(1)},
                 with_batch(in, out.front()))};
  }

 private:
  bool right_;
};

/// Running sums or products of a line, in order; f16 and bf16 in f32.
class Cumulate : public Operation {
 public:
  Cumulate(size_t axis, bool product) : axis_(axis), product_(product) {}
  std::string_view name() const override { return product_ ? "cumprod" : "cumsum"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Cumulate::axis_, &Cumulate::product_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Spec wide{out.front().shape, computed_dtype(out.front().dtype)};
    Data data = new_data(wide);
    const Operand operand{&wide, &data};
    if (TensorDevice* kernels = current_kernels()) {
      const Data x = contiguous(in[0], wide.dtype);
      kernels->cumulate(indexed_lines(x, wide, axis_, data), product_);
      if (wide.dtype == out.front().dtype) return {std::move(data)};
      return {evaluate_one(ElementOp::kCast, {&operand, 1}, out.front())};
    }
    each_line_of(in[0], axis_, [&](const auto* x, int64_t line, const Lines& lines) {
      using T = std::remove_cvref_t<decltype(*x)>;
      using U = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
      T* y = elements<T>(data) + lines.first(line);
      U sum = product_ ? U{1} : U{0};
      for (int64_t i = 0; i < lines.along; ++i) {
        const auto value = static_cast<U>(x[i * lines.inner]);
        sum = product_ ? sum * value : sum + value;
        y[i * lines.inner] = static_cast<T>(sum);
      }
    });
    if (wide.dtype == out.front().dtype) return {std::move(data)};
    return {evaluate_one(ElementOp::kCast, {&operand, 1}, out.front())};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    const auto axis = static_cast<int>(axis_);
    if (product_) return tensor::vjp(doubling(axis), in, cotangents).second;
    return {flip(cumsum(flip(cotangents.front(), {axis}), axis), {axis})};
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    const auto axis = static_cast<int>(axis_);
    if (product_) return tensor::jvp(doubling(axis), in, tangents).second;
    return {cumsum(tangents.front(), axis)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return {make(Cumulate(axis_ + 1, product_), {in[0]}, with_batch(in, out.front()))};
  }

 private:
  // The products in log2 n steps (Hillis and Steele, CACM 1986), whose derivative has no division
  // and so is right where elements are 0.
  static Function doubling(int axis) {
    return [axis](std::span<const Tensor> in) {
      Tensor x = in.front();
      const int64_t count = x.dim(axis);
      for (int64_t step = 1; step < count; step *= 2) {
        std::vector<Slice> first(static_cast<size_t>(axis) + 1), rest = first, last = first;
        first.back() = {0, step, 1};
        rest.back() = {step, count, 1};
        last.back() = {0, count - step, 1};
        x = concatenate({slice(x, first), slice(x, rest) * slice(x, last)}, axis);
      }
      return std::vector<Tensor>{x};
    };
  }
  size_t axis_;
  bool product_;
};

Tensor arg_reduce(std::string_view function, const Tensor& x, std::optional<int> axis, bool keep,
                  bool largest) {
  require(function, x);
  const Tensor line = axis ? x : flatten(x);
  const auto at = static_cast<size_t>(axis_of(function, axis.value_or(0), line.rank()));
  if (line.shape()[at] == 0)
    fail(ErrorKind::kInput, "{}: axis {} of {} is empty", function, at, text(line.shape()));
  Shape shape = line.shape();
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(at));
  const Tensor y = make(ArgReduce(at, largest), {line}, {std::move(shape), Dtype::kI64});
  if (!keep) return y;
  return axis ? expand_dims(y, static_cast<int>(at)) : reshape(y, Shape(x.shape().size(), 1));
}

Tensor cumulate(std::string_view function, const Tensor& x, int axis, bool product) {
  require(function, x);
  const Tensor wide = is_float(x.dtype()) ? x : astype(x, Dtype::kI64);
  const auto at = static_cast<size_t>(axis_of(function, axis, x.rank()));
  return make(Cumulate(at, product), {wide}, {x.shape(), wide.dtype()});
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<int> axis, bool keep) {
  return arg_reduce("argmax", x, axis, keep, true);
}
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keep) {
  return arg_reduce("argmin", x, axis, keep, false);
}

Tensor argsort(const Tensor& x, int axis, bool descending) {
  require("argsort", x);
  const auto at = static_cast<size_t>(axis_of("argsort", axis, x.rank()));
  return make(ArgSort(at, descending), {x}, {x.shape(), Dtype::kI64});
}
Tensor sort(const Tensor& x, int axis, bool descending) {
  return take_along_axis(x, argsort(x, axis, descending), axis);
}

std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k, int axis) {
  require("top_k", x);
  const auto at = static_cast<size_t>(axis_of("top_k", axis, x.rank()));
  if (k < 0 || k > x.shape()[at])
    fail(ErrorKind::kInput, "top_k: {} of {} elements", k, x.shape()[at]);
  std::vector<Slice> first(at + 1);
  first[at] = {0, k, 1};
  const Tensor indices = slice(argsort(x, axis, true), first);
  return {take_along_axis(x, indices, axis), indices};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  require("searchsorted", sorted);
  require("searchsorted", values);
  if (sorted.rank() != 1)
    fail(ErrorKind::kInput, "searchsorted: the sorted tensor has the shape {}, expected [n]",
         text(sorted.shape()));
  const Dtype type = promote(sorted.dtype(), values.dtype());
  return make(SearchSorted(right), {astype(sorted, type), astype(values, type)},
              {values.shape(), Dtype::kI64});
}

Tensor cumsum(const Tensor& x, int axis) { return cumulate("cumsum", x, axis, false); }
Tensor cumprod(const Tensor& x, int axis) { return cumulate("cumprod", x, axis, true); }

}  // namespace veery::tensor
