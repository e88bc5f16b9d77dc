// views.h: operations whose results share the memory of their input.
#pragma once
#include <optional>
#include <vector>

#include "tensor/node.h"

namespace veery::tensor {

/// The first two dimensions as one, for operations on samples that have a batch of their own.
Tensor merge_batches(const Tensor& x);
/// The first dimension as `size` samples of a shape.
Tensor part_batches(const Tensor& x, int64_t size, const Shape& of_sample);

class View : public Operation {
 public:
  bool runs_on_devices() const final { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const final {
    return {view(in.front(), out.front())};
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const final {
    return {back(cotangents.front(), in.front())};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const final {
    return {again(tangents.front(), out.front().shape())};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const final {
    return {of_batch(in[0], out.front().shape)};
  }

 private:
  virtual Data view(const Operand& in, const Spec& out) const = 0;
  /// The transpose of the view: from the shape of its output to that of its input `x`.
  virtual Tensor back(const Tensor& y, const Tensor& x) const = 0;
  /// The same view of another tensor; `shape`: of the result.
  virtual Tensor again(const Tensor& x, const Shape& shape) const = 0;
  /// The same view of each sample, the batch being the first dimension; `shape`: for one sample.
  virtual Tensor of_batch(const Tensor& x, const Shape& shape) const = 0;
};

/// Repeats elements of dimensions of size 1, and in front.
class Broadcast : public View {
 public:
  std::string_view name() const override { return "broadcast_to"; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }

 private:
  Data view(const Operand& in, const Spec& out) const override;
  Tensor back(const Tensor& y, const Tensor& x) const override;
  Tensor again(const Tensor& x, const Shape& shape) const override {
    return broadcast_to(x, shape);
  }
  Tensor of_batch(const Tensor& x, const Shape& shape) const override;
};

/// Output dimension i is input dimension order[i].
class Transpose : public View {
 public:
  explicit Transpose(std::vector<int> order) : order_(std::move(order)) {}
  std::string_view name() const override { return "transpose"; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Transpose::order_);
  }

 private:
  Data view(const Operand& in, const Spec& out) const override;
  Tensor back(const Tensor& y, const Tensor& x) const override;
  Tensor again(const Tensor& x, const Shape& shape) const override;
  Tensor of_batch(const Tensor& x, const Shape& shape) const override;
  std::vector<int> order_;
};

/// A slice as numbers: `count` elements from `first` on, `step` apart.
struct Range {
  int64_t first = 0, count = 0, step = 1;
  int64_t size = 0;  ///< of the axis

  bool is_whole() const { return first == 0 && count == size && step == 1; }
  bool operator==(const Range&) const = default;
};
/// The ranges of all axes of a shape. Throws kInput.
std::vector<Range> ranges_of(std::string_view function, const std::vector<Slice>& slices,
                             const Shape& shape);
/// Whether ranges are the same if axes that are taken whole have other sizes.
bool same_for_any_shape(const std::vector<Range>& a, const std::vector<Range>& b);
/// Slices that give `ranges`.
std::vector<Slice> slices_of(const std::vector<Range>& ranges);
Shape shape_of(const std::vector<Range>& ranges);
/// The elements of `data` in these ranges.
Data take_ranges(const Data& data, const std::vector<Range>& ranges);

class Slicing : public View {
 public:
  explicit Slicing(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}
  std::string_view name() const override { return "slice"; }
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const Slicing*>(&other);
    return same != nullptr && same_for_any_shape(ranges_, same->ranges_);
  }

 private:
  Data view(const Operand& in, const Spec& out) const override;
  Tensor back(const Tensor& y, const Tensor& x) const override;
  Tensor again(const Tensor& x, const Shape& shape) const override;
  Tensor of_batch(const Tensor& x, const Shape& shape) const override;
  std::vector<Range> ranges_;
};

/// The elements in row-major order with another shape. Copies if the strides do not permit a view.
class Reshape : public View {
 public:
  std::string_view name() const override { return "reshape"; }
  bool is_same(const Operation& other) const override { return has_same(*this, other); }

 private:
  Data view(const Operand& in, const Spec& out) const override;
  Tensor back(const Tensor& y, const Tensor& x) const override { return reshape(y, x.shape()); }
  Tensor again(const Tensor& x, const Shape& shape) const override { return reshape(x, shape); }
  Tensor of_batch(const Tensor& x, const Shape& shape) const override {
    return reshape(x, with_first(x.dim(0), shape));
  }
};

/// Elements of the input in row-major order, by offset and strides. They may overlap.
class AsStrided : public View {
 public:
  AsStrided(Strides strides, int64_t offset) : strides_(std::move(strides)), offset_(offset) {}
  std::string_view name() const override { return "as_strided"; }

 private:
  Data view(const Operand& in, const Spec& out) const override;
  Tensor back(const Tensor& y, const Tensor& x) const override;
  Tensor again(const Tensor& x, const Shape& shape) const override;
  Tensor of_batch(const Tensor& x, const Shape& shape) const override;
  Tensor places(const Shape& shape) const;
  Strides strides_;
  int64_t offset_;
};

/// Strides with which `shape` traverses the elements of `from` in row-major order; nothing if there
/// are none.
std::optional<Strides> reshaped_strides(const Shape& from, const Strides& strides,
                                        const Shape& shape);

}  // namespace veery::tensor
