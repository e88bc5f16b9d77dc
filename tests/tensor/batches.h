// batches.h: functions of batches against the same functions of each sample.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "tensor/reference.h"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor::test {

/// Sample i of an argument.
inline Tensor sample(const Tensor& x, std::optional<int> axis, int64_t i) {
  if (!axis) return x;
  return take(x, Tensor::of<int64_t>({i}, {}), *axis);
}

/// vmap(fn) gives the bits of fn on each sample.
inline void expect_batch(const char* what, const Function& fn, const std::vector<Tensor>& arguments,
                         const MapAxes& axes) {
  int64_t size = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i]) size = arguments[i].dim(*axes[i]);
  const std::vector<Tensor> found = vmap(fn, axes)(arguments);
  for (int64_t i = 0; i < size; ++i) {
    std::vector<Tensor> one;
    for (size_t k = 0; k < axes.size(); ++k) one.push_back(sample(arguments[k], axes[k], i));
    const std::vector<Tensor> expected = fn(one);
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (size_t k = 0; k < found.size(); ++k) {
      const Tensor part = sample(found[k], 0, i);
      EXPECT_EQ(part.shape(), expected[k].shape()) << what;
      EXPECT_EQ(part.dtype(), expected[k].dtype()) << what;
      EXPECT_EQ(part.values<double>(), expected[k].values<double>()) << what << " sample " << i;
    }
  }
}

using BatchFn = std::function<Tensor(std::span<const Tensor>)>;
inline void expect_batch(const char* what, const BatchFn& fn, const std::vector<Tensor>& arguments,
                         const MapAxes& axes) {
  const Function all = [&](std::span<const Tensor> in) { return std::vector<Tensor>{fn(in)}; };
  expect_batch(what, all, arguments, axes);
}

/// Each subset of the arguments is mapped, whose batches are first dimensions; also in two levels.
inline void expect_all_batches(const char* what, const Function& fn,
                               const std::vector<Tensor>& arguments) {
  const auto count = arguments.size();
  for (size_t mask = 1; mask < (size_t{1} << count); ++mask) {
    std::vector<Tensor> given;
    MapAxes axes;
    for (size_t i = 0; i < count; ++i) {
      const bool mapped = ((mask >> i) & 1) != 0;
      const Tensor& x = arguments[i];
      given.push_back(mapped ? x : sample(x, 0, 1));
      axes.push_back(mapped ? std::optional(0) : std::nullopt);
    }
    expect_batch(what, fn, given, axes);
    // With a further level that maps the other arguments, or all.
    const Function inner = vmap(fn, axes);
    for (const bool all : {false, true}) {
      MapAxes outer;
      std::vector<Tensor> wide;
      bool any = false;
      for (size_t i = 0; i < count; ++i) {
        const bool mapped = all || !axes[i];
        const Tensor& x = given[i];
        any = any || mapped;
        outer.push_back(mapped ? std::optional(0) : std::nullopt);
        wide.push_back(mapped ? stack({x, x.rank() > 0 ? flip(x, {-1}) : x + x}) : x);
      }
      if (any) expect_batch(what, inner, wide, outer);
    }
  }
}

inline void expect_all_batches(const char* what, const BatchFn& fn,
                               const std::vector<Tensor>& arguments) {
  const Function all = [&](std::span<const Tensor> in) { return std::vector<Tensor>{fn(in)}; };
  expect_all_batches(what, all, arguments);
}

}  // namespace veery::tensor::test
