// Functions of batches against the same functions of each sample.
#include <gtest/gtest.h>

#include "tensor/batches.h"

namespace veery::tensor {
namespace {

using test::distance;
using test::expect_all_batches;
using test::expect_batch;
using test::numbers;
using test::sample;
using Fn = test::BatchFn;

TEST(Vmap, HasARuleForEachOperationOfOneTensor) {
  const std::pair<const char*, Tensor (*)(const Tensor&)> functions[] = {
      {"chain", [](const Tensor& x) { return tanh(x * 2 + 1) / (abs(x) + 0.5); }},
      {"sum", [](const Tensor& x) { return sum(x, {1}); }},
      {"prod of all", [](const Tensor& x) { return prod(x); }},
      {"max", [](const Tensor& x) { return max(x, {0}, true); }},
      {"any", [](const Tensor& x) { return any(x > 2.5, {1}); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"var", [](const Tensor& x) { return var(x, {-1}); }},
      {"astype", [](const Tensor& x) { return astype(x, Dtype::kI32); }},
      {"transpose", [](const Tensor& x) { return transpose(x); }},
      {"reshape",
       [](const Tensor& x) {
         return reshape(transpose(x), {2, 6});
       }},
      {"broadcast_to",
       [](const Tensor& x) {
         return broadcast_to(x, {2, 3, 4}) + 0;
       }},
      {"slice",
       [](const Tensor& x) {
         return slice(x, {{{}, {}, -2}, {1, 3, 1}});
       }},
      {"flip", [](const Tensor& x) { return flip(x); }},
      {"as_strided",
       [](const Tensor& x) {
         return as_strided(transpose(x), {3, 2}, {2, 1}, 1);
       }},
      {"concatenate",
       [](const Tensor& x) {
         return concatenate({x, ones({1, 4}), x * 2});
       }},
      {"stack",
       [](const Tensor& x) {
         return stack({x, x + 1}, -1);
       }},
      {"slice_update",
       [](const Tensor& x) {
         return slice_update(x, {{1, 2, 1}}, zeros({4}));
       }},
      {"pad",
       [](const Tensor& x) {
         return pad(x, {{1, 0}, {0, 2}}, 7);
       }},
      {"repeat", [](const Tensor& x) { return repeat(x, 2, 1); }},
      {"tile",
       [](const Tensor& x) {
         return tile(x, {2, 1, 2});
       }},
      {"roll", [](const Tensor& x) { return roll(x, 1, 0); }},
      {"diff", [](const Tensor& x) { return diff(x); }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"argmax", [](const Tensor& x) { return argmax(x, 1); }},
      {"argmin of all", [](const Tensor& x) { return argmin(x); }},
      {"argsort", [](const Tensor& x) { return argsort(x, 0); }},
      {"sort", [](const Tensor& x) { return sort(x, 1, true); }},
      {"top_k", [](const Tensor& x) { return top_k(x, 2).first; }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 1); }},
      {"searchsorted",
       [](const Tensor&
              x) { return searchsorted(sort(flatten(x)), reshape(x, {4, 3}) * 0.5, true); }},
      {"searchsorted in constants",
       [](const Tensor& x) { return searchsorted(Tensor::of<float>({-1, 0, 1}), x); }},
      {"searchsorted of constants",
       [](const Tensor&
              x) { return searchsorted(sort(flatten(x)), Tensor::of<float>({-1, 0, 1})); }},
      {"one_hot", [](const Tensor& x) { return one_hot(astype(x, Dtype::kI32), 3); }},
      {"stop_gradient", [](const Tensor& x) { return stop_gradient(x) * x; }},
      {"the argument", [](const Tensor& x) { return x; }},
      {"a constant", [](const Tensor&) { return arange(0, 3); }}};
  const Tensor x = numbers({5, 3, 4}, Dtype::kF32, 1), middle = numbers({3, 5, 4}, Dtype::kF32, 2);
  for (const auto& [name, fn] : functions) {
    const Fn one = [fn = fn](std::span<const Tensor> in) { return fn(in[0]); };
    expect_batch(name, one, {x}, {0});
    expect_batch(name, one, {middle}, {-2});
    // Two levels are the samples of a batch of batches.
    const Function inner =
        vmap([&](std::span<const Tensor> in) { return std::vector<Tensor>{one(in)}; });
    expect_batch(name, inner, {numbers({2, 3, 3, 4}, Dtype::kF32, 3)}, {0});
  }
}

TEST(Vmap, HasARuleForEachOperationOfSeveralTensors) {
  const Tensor a = numbers({3, 4, 5}, Dtype::kF32, 4), b = numbers({3, 5, 2}, Dtype::kF32, 5);
  const Tensor rows = Tensor::of<int32_t>({0, 3, -1, 1, 2, 2, 0, -4, 1}, {3, 3});
  const Tensor places = astype(numbers({3, 2, 5}, Dtype::kF32, 6, 0, 3.99), Dtype::kI64);
  expect_all_batches("where",
                     [](std::span<const Tensor> in) { return where(in[0] > 0, in[0], in[1]); },
                     {a, flip(a)});
  expect_all_batches("broadcast", [](std::span<const Tensor> in) { return in[0] * in[1]; },
                     {a, numbers({3, 5}, Dtype::kF32, 7)});
  expect_all_batches("matmul", [](std::span<const Tensor> in) { return matmul(in[0], in[1]); },
                     {a, b});
  expect_all_batches("matmul vector",
                     [](std::span<const Tensor> in) { return matmul(in[0], in[1]); },
                     {a, numbers({3, 5}, Dtype::kF32, 8)});
  expect_all_batches("matmul batches",
                     [](std::span<const Tensor> in) { return matmul(in[0], in[1]); },
                     {numbers({3, 2, 4, 5}, Dtype::kF32, 9), b});
  for (const int axis : {0, 1}) {
    const Tensor x = axis == 0 ? a : numbers({3, 2, 4}, Dtype::kF32, 10);
    expect_all_batches("take", [=](std::span<const Tensor> in) { return take(in[0], in[1], axis); },
                       {x, rows});
    expect_all_batches("scatter_add",
                       [=](std::span<const Tensor> in) {
                         return scatter_add(in[0], in[1], take(in[0], in[1], axis) * 2, axis);
                       },
                       {x, rows});
  }
  expect_all_batches(
      "scatter_add of updates",
      [](std::span<const Tensor> in) { return scatter_add(zeros({4}), in[0], in[1]); },
      {rows, numbers({3, 3}, Dtype::kF32, 11)});
  expect_all_batches("take_along_axis",
                     [](std::span<const Tensor> in) { return take_along_axis(in[0], in[1], 0); },
                     {a, places});
  expect_all_batches("scatter_add_along_axis",
                     [](std::span<const Tensor> in) {
                       return scatter_add_along_axis(in[0], in[1], astype(in[1], Dtype::kF32), 0);
                     },
                     {a, places});
  expect_all_batches("slice_update",
                     [](std::span<const Tensor> in) {
                       return slice_update(in[0], {{1, 2, 1}}, in[1]);
                     },
                     {a, numbers({3, 1, 5}, Dtype::kF32, 12)});
}

TEST(Vmap, FindsIndicesOutsideOfASample) {
  const Tensor x = numbers({2, 3}, Dtype::kF32, 13), rows = Tensor::of<int64_t>({0, 3}, {2, 1});
  const Function fn = [](std::span<const Tensor> in) { return std::vector{take(in[0], in[1])}; };
  EXPECT_THROW(vmap(fn)(std::array{x, rows})[0].eval(), Error);
}

TEST(Vmap, GivesEachKeyItsNumbers) {
  const Tensor keys = random::split(random::key(5), 4);
  const Function fn = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{random::uniform(in[0], {7}), random::normal(in[0], {2, 3}),
                               random::permutation(in[0], 6), random::split(in[0], 3)};
  };
  expect_batch("keys", fn, {keys}, {0});
  expect_batch("keys of keys", vmap(fn), {stack({keys, random::split(random::key(6), 4)})}, {0});
}

TEST(Vmap, PutsTheBatchWhereItIsAsked) {
  const Tensor x = numbers({4, 5, 3}, Dtype::kF32, 14);
  const Function fn = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{in[0] + 1, in[0]};
  };
  const std::vector<Tensor> found = vmap(fn, {1}, {2, -2})(std::array{x});
  EXPECT_EQ(found[0].values<float>(), moveaxis(x + 1, 1, 2).values<float>());
  EXPECT_EQ(found[1].values<float>(), x.values<float>());
}

TEST(Vmap, GivesTheGradientOfEachSample) {
  const Tensor w = numbers({4, 3}, Dtype::kF64, 15), x = numbers({6, 4}, Dtype::kF64, 16);
  const Tensor rows = Tensor::of<int32_t>({0, 2, 1, 1, 3, 0}, {6});
  const ScalarFunction loss = [](std::span<const Tensor> in) {
    return -take(log_softmax(matmul(in[1], in[0]) + take(in[0], in[2])), in[2] % 3);
  };
  const Function gradient = [&](std::span<const Tensor> in) { return grad(loss)(in); };
  const std::vector<Tensor> arguments = {w, x, rows};
  expect_batch("per-sample gradients", gradient, arguments, {std::nullopt, 0, 0});
  // Their sum is the gradient of the sum.
  const ScalarFunction total = [&](std::span<const Tensor> in) {
    const Function one = [&](std::span<const Tensor> at) { return std::vector{loss(at)}; };
    return sum(vmap(one, {std::nullopt, 0, 0})(in)[0]);
  };
  const Tensor samples = vmap(gradient, {std::nullopt, 0, 0})(arguments)[0];
  EXPECT_LE(distance(grad(total)(arguments)[0], sum(samples, {0})), 1e-12);
  // Second derivatives through both.
  const Function squares = [&](std::span<const Tensor> in) {
    const Function one = [&](std::span<const Tensor> at) {
      return grad(loss)(std::array{at[0], at[1], at[2]});
    };
    return std::vector{
        sum(square(vmap(one, {std::nullopt, 0, 0})(std::array{in[0], in[1], rows})[0]))};
  };
  const GradientCheck check = check_gradients(squares, std::array{w, x});
  EXPECT_TRUE(check.passed) << check.text;
}

TEST(Vmap, ComposesWithCheckpointsAndCustomRules) {
  const Tensor w = numbers({4, 4}, Dtype::kF64, 17), x = numbers({5, 4}, Dtype::kF64, 18);
  const Function block = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{tanh(matmul(in[1], in[0]))};
  };
  const Function scaled = custom_vjp(
      [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0] * in[1]}; },
      [](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor> t) {
        return std::vector<Tensor>{t[0] * in[1] * 3, t[0] * in[0] * 5};
      });
  for (const bool captures : {false, true}) {
    const auto loss = [&](bool saved) {
      return [&, saved](std::span<const Tensor> in) {
        const Tensor of_sample = in[1] * 2;
        const Function inner = [&, of_sample](std::span<const Tensor> at) {
          const Tensor y = block(at)[0];
          return std::vector<Tensor>{captures ? y + of_sample : y};
        };
        const Tensor y = (saved ? checkpoint(inner) : inner)(in)[0];
        const Tensor first = slice(in[0], {{0, 1, 1}});
        return std::vector<Tensor>{sum(scaled(std::array{y, reshape(first, {4})})[0])};
      };
    };
    const auto total = [&](bool saved) {
      return [&, saved](std::span<const Tensor> in) {
        return sum(square(vmap(loss(saved), {std::nullopt, 0})(in)[0]));
      };
    };
    const std::vector<Tensor> plain = grad(total(false), {0, 1})(std::array{w, x}),
                              saved = grad(total(true), {0, 1})(std::array{w, x});
    // The same, sample by sample.
    const auto one_by_one = [&](std::span<const Tensor> in) {
      Tensor sum_of;
      for (int64_t i = 0; i < 5; ++i) {
        const Tensor y = square(loss(false)(std::array{in[0], sample(in[1], 0, i)})[0]);
        sum_of = sum_of ? sum_of + y : y;
      }
      return sum_of;
    };
    const std::vector<Tensor> expected = grad(one_by_one, {0, 1})(std::array{w, x});
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_LE(distance(plain[i], expected[i]), 1e-12) << captures;
      EXPECT_LE(distance(saved[i], expected[i]), 1e-12) << captures;
    }
    const Function gradient = [&](std::span<const Tensor> in) {
      return grad([&](std::span<const Tensor> at) { return loss(true)(at)[0]; }, {0, 1})(in);
    };
    expect_batch("gradients", gradient, {w, x}, {std::nullopt, 0});
  }
}

TEST(Vmap, RefusesWhatItCannotMap) {
  const Tensor x = numbers({4, 2}, Dtype::kF32, 19), y = numbers({3, 2}, Dtype::kF32, 20);
  const Function fn = [](std::span<const Tensor> in) { return std::vector{in[0] + in[1]}; };
  EXPECT_THROW(vmap(fn)(std::array{x, y}), Error);
  EXPECT_THROW(vmap(fn, {std::nullopt, std::nullopt})(std::array{x, x}), Error);
  EXPECT_THROW(vmap(fn, {0})(std::array{x, x}), Error);
  EXPECT_THROW(vmap(fn, {0, 2})(std::array{x, x}), Error);
  const Function reads = [](std::span<const Tensor> in) {
    return std::vector{in[0] * sum(in[0]).item<double>()};
  };
  try {
    vmap(reads)(std::array{x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string_view(error.what()).find("vmap"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace veery::tensor
