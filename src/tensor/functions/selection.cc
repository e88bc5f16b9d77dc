// Functions whose results have sizes that depend on values. They evaluate their arguments.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/lines.h"
#include "tensor/node.h"

namespace veery::tensor {
namespace {

// The flat indices of the true elements.
std::vector<int64_t> true_places(const Tensor& mask) {
  const std::vector<bool> values = astype(mask, Dtype::kBool).values<bool>();
  std::vector<int64_t> places;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]) places.push_back(static_cast<int64_t>(i));
  return places;
}

Tensor as_tensor(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(std::span<const int64_t>(values));
}

struct Groups {
  std::vector<int64_t> first, counts, inverse;
};

// Elements in ascending order, equal ones as a group. NaN is the largest number and equals nothing.
template <typename T>
Groups groups_of(const std::vector<T>& values) {
  const auto is_nan = [](T x) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
    return false;
  };
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return is_nan(value(b)) ? !is_nan(value(a)) : value(a) < value(b);
  });
  Groups groups;
  groups.inverse.resize(values.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || value(order[i]) != value(order[i - 1])) {
      groups.first.push_back(order[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  return groups;
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  require("masked_fill", x);
  require("masked_fill", mask);
  if (broadcast("masked_fill", x.shape(), mask.shape()) != x.shape())
    fail(ErrorKind::kInput, "masked_fill: a mask of shape {} cannot be broadcast to {}",
         text(mask.shape()), text(x.shape()));
  return where(mask, value, x);
}

std::vector<Tensor> nonzero(const Tensor& mask) {
  require("nonzero", mask);
  if (mask.rank() == 0)
    fail(ErrorKind::kInput, "nonzero: a tensor without dimensions, expected 1 or more");
  const std::vector<int64_t> places = true_places(mask);
  const Strides strides = contiguous_strides(mask.shape());
  std::vector<Tensor> result;
  for (size_t d = 0; d < strides.size(); ++d) {
    std::vector<int64_t> indices;
    for (const int64_t place : places) indices.push_back(place / strides[d] % mask.shape()[d]);
    result.push_back(as_tensor(indices));
  }
  return result;
}

Tensor compress(const Tensor& x, const Tensor& mask, std::optional<int> axis) {
  require("compress", x);
  require("compress", mask);
  const Tensor from = axis ? x : flatten(x);
  const int at = axis_of("compress", axis.value_or(0), from.rank());
  const Shape expected = axis ? Shape{x.dim(at)} : x.shape();
  if (mask.shape() != expected)
    fail(ErrorKind::kInput, "compress: a mask of shape {}, expected {}", text(mask.shape()),
         text(expected));
  return take(from, as_tensor(true_places(mask)), at);
}

Unique unique(const Tensor& x) {
  require("unique", x);
  Unique result;
  with_number(x.dtype(), [&](auto sample) {
    const Groups groups = groups_of(x.values<decltype(sample)>());
    result.indices = as_tensor(groups.first);
    result.counts = as_tensor(groups.counts);
    result.inverse = reshape(as_tensor(groups.inverse), x.shape());
  });
  result.values = take(flatten(x), result.indices);
  return result;
}

}  // namespace veery::tensor
