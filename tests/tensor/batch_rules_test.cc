// vmap of operations with kernels of their own: the bits of a call for each sample, with any of the
// arguments mapped, in both passes.
#include "dtype/dtype.h"
#include "kernels/linear_oracle.h"
#include "tensor/batches.h"
#include "veery/tensor_fast.hpp"
#include "veery/tensor_io.hpp"
#include "veery/tensor_rope.hpp"

namespace veery::tensor {
namespace {

using test::expect_all_batches;
using test::expect_batch;
using test::numbers;
using Fn = test::BatchFn;

// The result, and the gradients of the floats among the arguments for a cotangent, the last input.
Function with_gradients(const Fn& fn) {
  return [fn](std::span<const Tensor> in) {
    const Function one = [&](std::span<const Tensor> at) { return std::vector<Tensor>{fn(at)}; };
    const auto arguments = in.first(in.size() - 1);
    auto [results, gradients] = vjp(one, arguments, in.last(1));
    for (size_t i = 0; i < arguments.size(); ++i)
      if (promote(arguments[i].dtype(), Dtype::kF16) == arguments[i].dtype())
        results.push_back(gradients[i]);
    return results;
  };
}

// The gradients of the first argument only.
Function with_first_gradient(const Fn& fn) {
  return [fn](std::span<const Tensor> in) {
    const Function one = [&](std::span<const Tensor> x) {
      std::vector<Tensor> all(in.begin(), in.end() - 1);
      all[0] = x[0];
      return std::vector<Tensor>{fn(all)};
    };
    return vjp(one, in.first(1), in.last(1)).second;
  };
}

void expect_rules(const char* what, const Fn& fn, std::vector<Tensor> arguments) {
  std::vector<Tensor> first;
  for (const Tensor& x : arguments) first.push_back(test::sample(x, 0, 0));
  const Tensor y = fn(first);
  Shape shape = y.shape();
  shape.insert(shape.begin(), arguments[0].dim(0));
  arguments.push_back(numbers(shape, y.dtype(), 77));
  expect_all_batches(what, with_gradients(fn), arguments);
  expect_all_batches(what, with_first_gradient(fn), arguments);
}

TEST(BatchRules, Norms) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kF64}) {
    const Tensor x = numbers({3, 4, 37}, type, 1), weight = numbers({3, 37}, type, 2),
                 bias = numbers({3, 37}, type, 3);
    expect_rules("rms_norm", [](std::span<const Tensor> in) { return fast::rms_norm(in[0]); }, {x});
    expect_rules("rms_norm with a weight",
                 [](std::span<const Tensor> in) { return fast::rms_norm(in[0], in[1]); },
                 {x, weight});
    expect_rules("layer_norm",
                 [](std::span<const Tensor> in) { return fast::layer_norm(in[0], in[1], in[2]); },
                 {x, weight, bias});
    expect_rules("layer_norm with a bias",
                 [](std::span<const Tensor> in) { return fast::layer_norm(in[0], {}, in[1]); },
                 {numbers({3, 37}, type, 4), bias});
  }
}

TEST(BatchRules, CrossEntropy) {
  const Tensor targets = Tensor::of<int32_t>({0, 3, 9, 10, 2, 2, 7, 3, 1, 3, 0, 4}, {3, 4});
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF64}) {
    const Tensor logits = numbers({3, 4, 11}, type, 5), weights = numbers({3, 4}, type, 6, 0.1, 2);
    for (const fast::Reduction reduction : {fast::Reduction::kNone, fast::Reduction::kMean}) {
      fast::CrossEntropyOptions options{.reduction = reduction};
      expect_rules(
          "cross_entropy",
          [=](std::span<const Tensor> in) { return fast::cross_entropy(in[0], in[1], options); },
          {logits, targets});
      options.ignore_index = 3;
      options.label_smoothing = 0.1;
      expect_rules("cross_entropy with options",
                   [=](std::span<const Tensor> in) {
                     fast::CrossEntropyOptions all = options;
                     all.weights = in[2];
                     return fast::cross_entropy(in[0], in[1], all);
                   },
                   {logits, targets, weights});
    }
  }
}

TEST(BatchRules, Attention) {
  const auto function = [](fast::AttentionOptions options, bool has_mask, bool has_sinks) {
    return [=](std::span<const Tensor> in) {
      fast::AttentionOptions all = options;
      if (has_mask) all.mask = in[3];
      if (has_sinks) all.sinks = in.back();
      return fast::scaled_dot_product_attention(in[0], in[1], in[2], all);
    };
  };
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16}) {
    const Tensor q = numbers({3, 2, 4, 5, 8}, type, 7), k = numbers({3, 2, 2, 6, 8}, type, 8),
                 v = numbers({3, 2, 2, 6, 7}, type, 9);
    const Tensor mask = numbers({3, 2, 1, 5, 6}, type, 10), sinks = numbers({3, 4}, type, 11);
    expect_rules("causal", function({.causal = true}, false, false), {q, k, v});
    expect_rules("window", function({.window = 3}, false, false), {q, k, v});
    expect_rules("mask", function({}, true, false), {q, k, v, mask});
    expect_rules("bool mask", function({}, true, false), {q, k, v, mask > -1});
    expect_rules("sinks", function({}, false, true), {q, k, v, sinks});
  }
}

TEST(BatchRules, Rope) {
  for (const fast::RopeLayout layout :
       {fast::RopeLayout::kHeadsFirst, fast::RopeLayout::kTokensFirst}) {
    const bool heads_first = layout == fast::RopeLayout::kHeadsFirst;
    const Shape shape = heads_first ? Shape{3, 2, 4, 5, 8} : Shape{3, 2, 5, 4, 8};
    const Tensor shared =
        Tensor::of<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 90, 1, 7, -3, 2}, {3, 5});
    for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF64}) {
      const Fn fn = [=](std::span<const Tensor> in) {
        return fast::rope(in[0], in[1], {.layout = layout});
      };
      const Tensor x = numbers(shape, type, 12);
      expect_rules("rope", fn, {x, shared});
      expect_rules("rope of each row", fn, {x, stack({shared, shared + 3}, 1)});
      const Fn axes = [=](std::span<const Tensor> in) {
        return fast::rope(
            in[0], in[1],
            {.mode = fast::RopeMode::kMrope, .layout = layout, .sections = {2, 1, 1, 0}});
      };
      expect_rules("rope with axes", axes, {x, stack({shared, shared + 3, shared * 2}, 1)});
    }
  }
}

TEST(BatchRules, QuantizedProducts) {
  for (const DType type : {DType::kQ8_0, DType::kQ4_K, DType::kQ4_0}) {
    const veery::test::Bytes bytes = veery::test::random_weight(type, 40, 256, 13);
    const QuantizedTensor q = QuantizedTensor::copy(bytes.data(), {40, 256}, info(type).name);
    for (const Dtype of : {Dtype::kF32, Dtype::kBF16, Dtype::kF16})
      for (const bool exact : {false, true}) {
        const Fn fn = [=](std::span<const Tensor> in) { return quantized_matmul(in[0], q, exact); };
        expect_rules("matrices", fn, {numbers({3, 4, 256}, of, 14)});
        expect_rules("vectors", fn, {numbers({33, 256}, of, 15)});
      }
    expect_all_batches(
        "dequantize",
        [=](std::span<const Tensor> in) { return matmul(in[0], transpose(dequantize(q))); },
        {numbers({3, 4, 256}, Dtype::kF32, 16)});
  }
}

TEST(BatchRules, CompiledFunctions) {
  const Tensor bias = numbers({5}, Dtype::kF32, 17);
  const Function compiled = compile([&](std::span<const Tensor> in) {
    return std::vector<Tensor>{fast::rms_norm(in[0] + bias), in[0] * 2};
  });
  const Tensor x = numbers({3, 4, 5}, Dtype::kF32, 18);
  expect_batch("compiled", compiled, {x}, {0});
  const Tensor found = compiled(std::array{x})[0];  // a value without a batch
  expect_batch("captured",
               [&](std::span<const Tensor> in) { return std::vector<Tensor>{found * in[0]}; }, {x},
               {0});
}

TEST(BatchRules, BatchesOfNoSamples) {
  const Fn fn = [](std::span<const Tensor> in) { return fast::rms_norm(in[0], in[1]); };
  const std::vector<Tensor> found =
      vmap(with_gradients(fn))(std::array{zeros({0, 4, 5}), zeros({0, 5}), zeros({0, 4, 5})});
  EXPECT_EQ(found[0].shape(), (Shape{0, 4, 5}));
  EXPECT_EQ(found[2].shape(), (Shape{0, 5}));
  EXPECT_EQ(found[2].values<float>().size(), 0U);
}

}  // namespace
}  // namespace veery::tensor
