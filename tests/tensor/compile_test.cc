// Compiled functions, evaluation by another thread, descriptions of plans.
#include <gtest/gtest.h>

#include <thread>

#include "tensor/reference.h"
#include "veery/tensor_fast.hpp"
#include "veery/tensor_rope.hpp"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor {
namespace {

using test::numbers;

using Tensors = std::vector<Tensor>;

std::vector<double> all_values(const Tensors& tensors) {
  std::vector<double> values;
  for (const Tensor& x : tensors) {
    const std::vector<double> more = x.values<double>();
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

// A bit of each kind: fused chains with several results, reductions, views, products, indices,
// values without arguments, an argument and a captured tensor as outputs.
Tensors mixture(std::span<const Tensor> in, const Tensor& captured) {
  const Tensor h = tanh(matmul(in[0], in[1]) + captured);
  const Tensor scores = softmax(transpose(h) * arange(0, in[0].dim(0)), -1);
  const Tensor total = sum(h * h, {1}) / std::sqrt(2.0);
  return {h,
          concatenate({scores, zeros_like(scores)}, 0),
          total,
          take(total, argsort(total)),
          slice(flip(h), {{1, {}, 1}}),
          in[0],
          captured,
          ones({2})};
}

TEST(Compile, HasTheBitsOfItsFunctionAndCallsItOncePerShape) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF64}) {
    const Tensor captured = numbers({3}, type, 1) * 2;
    int calls = 0;
    const Function fn = [&](std::span<const Tensor> in) {
      ++calls;
      return mixture(in, captured);
    };
    const Function compiled = compile(fn);
    for (int i = 0; i < 9; ++i) {
      const int64_t rows = 4 + i % 3;
      const Tensor x = numbers({rows, 5}, type, static_cast<uint64_t>(2 + i));
      const Tensor w = transpose(numbers({3, 5}, type, static_cast<uint64_t>(20 + i)));
      const Tensors found = compiled(std::array{x, w});
      EXPECT_EQ(all_values(found), all_values(mixture(std::array{x, w}, captured)));
      EXPECT_EQ(found[0].dtype(), type);
    }
    EXPECT_EQ(calls, 3);
  }
}

// More values than one program has registers for.
TEST(Compile, SplitsWhatNoProgramCanHold) {
  const auto wide = [](std::span<const Tensor> in) {
    Tensors parts;
    for (int i = 0; i < 12; ++i) parts.push_back(exp(in[0] * (0.1 * i)) + i);
    Tensor y = parts[0];
    for (int i = 1; i < 12; ++i) y = y * parts[static_cast<size_t>(i)] - parts[0];
    for (int i = 0; i < 12; ++i) y = y + sin(parts[static_cast<size_t>(i)]);
    return Tensors{sum(y, {1}), y};
  };
  const Function compiled = compile(wide);
  for (uint64_t i = 0; i < 3; ++i) {
    const Tensor x = numbers({3, 700}, Dtype::kF32, i);
    EXPECT_EQ(all_values(compiled({&x, 1})), all_values(wide({&x, 1})));
  }
}

TEST(Compile, WorksInsideAndOutsideOfTransforms) {
  const Tensor x = numbers({4, 6}, Dtype::kF32, 3), w = numbers({6, 2}, Dtype::kF32, 4);
  const Function layer = [](std::span<const Tensor> in) {
    return Tensors{gelu(matmul(in[0], in[1]))};
  };
  const auto loss = [](Function used) {
    return [used](std::span<const Tensor> in) { return sum(square(used(in)[0])); };
  };
  const Function plain = grad(loss(layer), {0, 1});
  const Tensors arguments = {x, w};
  const std::vector<double> expected = all_values(plain(arguments));
  EXPECT_EQ(all_values(grad(loss(compile(layer)), {0, 1})(arguments)), expected);
  const Function compiled = compile(plain);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(all_values(compiled(arguments)), expected);
  EXPECT_EQ(all_values(compile(grad(loss(compile(checkpoint(layer))), {0, 1}))(arguments)),
            expected);
  const Function batch = vmap(layer, {0, std::nullopt});
  EXPECT_EQ(all_values(compile(batch)(arguments)), all_values(batch(arguments)));
  EXPECT_EQ(all_values(vmap(compile(layer), {0, std::nullopt})(arguments)),
            all_values(batch(arguments)));
}

TEST(Compile, IsLazyAndReleasesIntermediates) {
  const Tensor x = numbers({1000}, Dtype::kF32, 5);
  const Function compiled = compile([](std::span<const Tensor> in) {
    Tensor y = in[0];
    for (int i = 0; i < 10; ++i) y = cumsum(y) * 0.01;
    return Tensors{y};
  });
  compiled({&x, 1})[0].eval();
  const Tensor y = compiled({&x, 1})[0];
  EXPECT_FALSE(y.is_evaluated());
  const size_t before = memory_use().active;
  reset_peak_memory();
  y.eval();
  EXPECT_LE(memory_use().active, before + 4096);
  EXPECT_LE(memory_use().peak, before + 3 * 4096);
}

TEST(Compile, RefusesFunctionsThatReadValues) {
  const Tensor x = numbers({3}, Dtype::kF32, 6);
  const Function reads = compile(
      [](std::span<const Tensor> in) { return Tensors{in[0] * sum(in[0]).item<double>()}; });
  EXPECT_THROW(reads({&x, 1}), Error);
  // Errors of an evaluation are those of the function.
  const Function takes =
      compile([](std::span<const Tensor> in) { return Tensors{take(in[0], in[1])}; });
  const Tensor bad = Tensor::of<int32_t>({5}), good = Tensor::of<int32_t>({2});
  EXPECT_THROW(takes(std::array{x, bad})[0].eval(), Error);
  EXPECT_EQ(takes(std::array{x, good})[0].item<float>(), x.values<float>()[2]);
}

// The sizes of x may change where nothing but shapes depends on them.
TEST(Compile, ShapelessPlansRunWithOtherSizes) {
  const Tensor bias = numbers({6}, Dtype::kF32, 30), table = numbers({9, 5}, Dtype::kF32, 31);
  struct Case {
    const char* name;
    Function fn;
    int calls_later;  ///< for other sizes
  };
  const Case cases[] = {
      {"layer",
       [&](std::span<const Tensor> in) {
         const Tensor h = tanh(matmul(in[0], in[1]) + bias);
         return Tensors{softmax(h, 0),
                        sum(h, {1}, true),
                        reshape(transpose(h), {-1}),
                        concatenate({h, h * 2}, 1),
                        argsort(h),
                        logsumexp(h, {0}),
                        h * broadcast_to(zeros({6}), h.shape())};
       },
       0},
      {"mean of rows", [](std::span<const Tensor> in) { return Tensors{mean(in[0], {1})}; }, 0},
      {"mean of columns", [](std::span<const Tensor> in) { return Tensors{mean(in[0], {0})}; }, 1},
      {"slice",
       [](std::span<const Tensor> in) {
         return Tensors{slice(in[0], {{1, 3, 1}}), in[0] * 2};  // fewer of 2 rows
       },
       1},
      {"slice of other axes",
       [](std::span<const Tensor> in) {
         const Tensor half = slice(in[0], {{}, {4, {}, -2}});
         return Tensors{half, slice_update(in[0], {{}, {0, 3, 1}}, half), roll(in[0], 2, 1)};
       },
       0},
      {"sequence",
       [](std::span<const Tensor> in) {
         return Tensors{in[0] * expand_dims(arange(0, in[0].dim(0)), 1)};
       },
       1},
      {"captured", [&](std::span<const Tensor> in) { return Tensors{matmul(table, in[1])}; }, 0},
      {"gradient",
       [&](std::span<const Tensor> in) {
         return grad(
             [&](std::span<const Tensor> at) {
               return sum(square(tanh(matmul(at[0], at[1]) + bias)));
             },
             {0, 1})(in);
       },
       0},
      {"functions with kernels of their own",
       [&](std::span<const Tensor> in) {
         const Tensor h = matmul(fast::rms_norm(in[0]), in[1]);
         const Tensor heads = reshape(h, {1, 1, in[0].dim(0), 6});
         const Tensor seen = fast::scaled_dot_product_attention(heads, heads, heads,
                                                                {.causal = true, .window = 250});
         const Tensor targets = argmax(in[0], -1);
         return Tensors{seen, fast::layer_norm(h, {}, bias), fast::rope(heads, targets),
                        fast::cross_entropy(h, targets, {.reduction = fast::Reduction::kSum})};
       },
       0},
      {"their gradients",
       [&](std::span<const Tensor> in) {
         return grad(
             [&](std::span<const Tensor> at) {
               const Tensor h = matmul(fast::rms_norm(at[0]), at[1]);
               const Tensor heads = reshape(h, {1, 1, in[0].dim(0), 6});
               const Tensor seen = fast::scaled_dot_product_attention(
                   heads, heads, heads, {.causal = true, .window = 250});
               return fast::cross_entropy(h, argmax(in[0], -1),
                                          {.reduction = fast::Reduction::kSum}) +
                      sum(square(seen));
             },
             {0, 1})(in);
       },
       0}};
  for (const Case& c : cases) {
    int calls = 0;
    const Function compiled = compile(
        [&](std::span<const Tensor> in) {
          ++calls;
          return c.fn(in);
        },
        true);
    const Tensor w = numbers({5, 6}, Dtype::kF32, 32);
    const Tensor first = numbers({7, 5}, Dtype::kF32, 33);
    EXPECT_EQ(all_values(compiled(std::array{first, w})), all_values(c.fn(std::array{first, w})));
    const int before = calls;
    for (const int64_t rows : {2, 3, 103, 600}) {
      const Tensor x = numbers({rows, 5}, Dtype::kF32, static_cast<uint64_t>(rows));
      const Tensors found = compiled(std::array{x, w}), expected = c.fn(std::array{x, w});
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].shape(), expected[i].shape()) << c.name << i;
        EXPECT_EQ(found[i].values<double>(), expected[i].values<double>()) << c.name << i;
      }
    }
    EXPECT_EQ(calls > before, c.calls_later != 0) << c.name;
  }
}

TEST(Compile, IsSharedByThreads) {
  const Function compiled = compile([](std::span<const Tensor> in) {
    return Tensors{sum(exp(in[0])), in[0] + 1};
  });
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 1; i < 20; ++i) {
        const Tensor x = full({i % 5 + 1}, static_cast<double>(t), Dtype::kF64);
        sums[t] += compiled({&x, 1})[0].item<double>() / static_cast<double>(i % 5 + 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 4; ++t) EXPECT_NEAR(sums[t], 19 * std::exp(static_cast<double>(t)), 1e-9);
}

TEST(AsyncEval, ComputesAndIsWaitedFor) {
  std::vector<Tensor> results;
  Tensor y = numbers({64, 64}, Dtype::kF32, 7);
  Tensor expected = y;
  for (int i = 0; i < 50; ++i) {
    y = tanh(matmul(y, y) * 0.1) + y;
    async_eval({&y, 1});
    results.push_back(y * 2);  // lazy work goes on meanwhile
    expected = tanh(matmul(expected, expected) * 0.1) + expected;
  }
  EXPECT_EQ(y.values<float>(), expected.values<float>());
  EXPECT_TRUE(y.is_evaluated());
  EXPECT_EQ(results.back().values<float>(), (expected * 2).values<float>());
}

TEST(AsyncEval, ThrowsWhenItIsWaitedForAndLeavesTensorsAsTheyWere) {
  const Tensor x = numbers({4}, Dtype::kF32, 8);
  const Tensor bad = take(x, Tensor::of<int32_t>({9})), good = x + 1;
  async_eval(std::array{bad, good});
  async_eval({&good, 1});
  try {
    bad.eval();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
  EXPECT_FALSE(bad.is_evaluated());
  EXPECT_EQ(good.values<float>(), (x + 1).values<float>());
  EXPECT_THROW(async_eval(std::array{Tensor()}), Error);
}

TEST(AsyncEval, IsWaitedForByTransformsAndEvaluatesWithinThem) {
  const Tensor x = numbers({100}, Dtype::kF64, 9);
  const Tensor scale = exp(x) + 1;
  async_eval({&scale, 1});
  const auto gradient = grad([&](std::span<const Tensor> in) {
    const Tensor y = in[0] * scale;
    async_eval({&y, 1});
    return sum(y * y);
  });
  EXPECT_EQ(gradient({&x, 1})[0].values<double>(), ((x * scale) * scale * 2).values<double>());
}

TEST(Describe, ShowsPassesViewsAndOperations) {
  const Tensor x = numbers({4, 6}, Dtype::kF32, 10), w = numbers({6, 2}, Dtype::kF32, 11);
  x.eval();
  w.eval();
  const Tensor h = tanh(matmul(x, w) * 0.5 + 1);
  const Tensor y = sum(transpose(h), {1});
  const std::string text = describe({&y, 1});
  EXPECT_EQ(text,
            "kind  results        computes             reads\n"
            "op    %0 f32 [4, 2]  matmul               $0 f32 [4, 6], $1 f32 [6, 2]\n"
            "pass  %1 f32 [4, 2]  multiply, add, tanh  %0, 0.5, 1\n"
            "view  %2 f32 [2, 4]  transpose            %1\n"
            "op    %3 f32 [2]     sum over [1]         %2\n")
      << text;
  const Tensor z = sum(exp(x) + x, {0});
  EXPECT_NE(describe({&z, 1}).find("exp, add, sum over [0]"), std::string::npos);
  EXPECT_FALSE(y.is_evaluated());
  y.eval();
  EXPECT_EQ(describe({&y, 1}), "kind  results  computes  reads\n");
}

}  // namespace
}  // namespace veery::tensor
