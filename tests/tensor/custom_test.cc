// Functions with derivatives of their own, and the check of derivatives.
#include <gtest/gtest.h>

#include "tensor/reference.h"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor {
namespace {

using test::distance;
using test::numbers;

using Tensors = std::vector<Tensor>;

// x^2 y, whose rule has a factor, so that one sees which derivative was used.
Function custom_product(double factor) {
  return custom_vjp(
      [](std::span<const Tensor> in) { return Tensors{square(in[0]) * in[1]}; },
      [factor](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor> t) {
        return Tensors{t[0] * in[0] * in[1] * (2 * factor), t[0] * square(in[0])};
      });
}

TEST(CustomVjp, UsesItsRuleInBothModes) {
  const Tensor x = numbers({4}, Dtype::kF64, 1), y = numbers({4}, Dtype::kF64, 2);
  const Tensors primals = {x, y};
  const Function fn = custom_product(10);
  EXPECT_EQ(fn(primals)[0].values<double>(), (square(x) * y).values<double>());
  const Tensor ones = ones_like(x);
  const Tensors gradients = vjp(fn, primals, {&ones, 1}).second;
  EXPECT_LE(distance(gradients[0], x * y * 20), 1e-12);
  EXPECT_LE(distance(gradients[1], square(x)), 1e-12);
  const Tensors tangents = {numbers({4}, Dtype::kF64, 3), numbers({4}, Dtype::kF64, 4)};
  EXPECT_LE(distance(jvp(fn, primals, tangents).second[0],
                     x * y * 20 * tangents[0] + square(x) * tangents[1]),
            1e-12);
  // An argument without a derivative costs nothing.
  const auto of_second = grad([&](std::span<const Tensor> in) { return sum(fn(in)[0]); }, {1});
  EXPECT_LE(distance(of_second(primals)[0], square(x)), 1e-12);
}

TEST(CustomVjp, IsDifferentiatedAgain) {
  const Tensor x = numbers({4}, Dtype::kF64, 5), y = numbers({4}, Dtype::kF64, 6);
  const ScalarFunction loss = [fn = custom_product(10)](std::span<const Tensor> in) {
    return sum(fn(in)[0]);
  };
  const ScalarFunction of_gradient = [&](std::span<const Tensor> in) {
    return sum(grad(loss)(in)[0]);
  };
  EXPECT_LE(distance(grad(of_gradient)(std::array{x, y})[0], y * 20), 1e-12);
  // The right rule passes the check, also of its gradient; a wrong one does not.
  const Function right = custom_product(1);
  EXPECT_TRUE(check_gradients(right, std::array{x, y}).passed);
  const Function gradient = [&](std::span<const Tensor> in) {
    return grad([&](std::span<const Tensor> at) { return sum(exp(right(at)[0])); }, {0, 1})(in);
  };
  const GradientCheck check = check_gradients(gradient, std::array{x * 0.3, y * 0.3});
  EXPECT_TRUE(check.passed) << check.text;
}

TEST(CustomVjp, DifferentiatesCapturedTensorsAndWorksInCheckpoints) {
  const Tensor x = numbers({3}, Dtype::kF64, 7), c = numbers({3}, Dtype::kF64, 8);
  const auto loss = [](bool saved) {
    return [saved](std::span<const Tensor> in) {
      const Tensor scale = exp(in[1]);
      const Function fn = custom_vjp(
          [scale](std::span<const Tensor> at) {
            return Tensors{at[0] * scale, at[0] + scale};
          },
          [scale](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor> t) {
            return Tensors{t[0] * scale * 7 + t[1]};
          });
      const Function used = saved ? checkpoint(fn) : fn;
      const Tensors y = used(std::array{in[0] * in[1]});
      return sum(y[0] * 2 + y[1]);
    };
  };
  for (const bool saved : {false, true}) {
    const Tensors found = grad(loss(saved), {0, 1})(std::array{x, c});
    const Tensor by_rule = exp(c) * 14 + 1;
    EXPECT_LE(distance(found[0], by_rule * c), 1e-12) << saved;
    EXPECT_LE(distance(found[1], by_rule * x + (x * c * 2 + 1) * exp(c)), 1e-12) << saved;
  }
}

// Arrays without a derivative of their own may have one by a rule.
TEST(CustomVjp, PassesFunctionsWithoutDerivatives) {
  const Tensor x = numbers({2, 5}, Dtype::kF32, 9);
  const Function straight_through =
      custom_vjp([](std::span<const Tensor> in) { return Tensors{round(in[0])}; },
                 [](std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor> t) {
                   return Tensors{t[0]};
                 });
  const auto gradient =
      grad([&](std::span<const Tensor> in) { return sum(square(straight_through(in)[0])); });
  EXPECT_EQ(gradient({&x, 1})[0].values<float>(), (round(x) * 2).values<float>());
}

TEST(CustomVjp, RefusesRulesOfOtherShapes) {
  const Tensor x = numbers({3}, Dtype::kF64, 10);
  const auto with = [&](const VjpFunction& rule) {
    const Function fn =
        custom_vjp([](std::span<const Tensor> in) { return Tensors{in[0] * 2}; }, rule);
    return grad([fn](std::span<const Tensor> in) { return sum(fn(in)[0]); });
  };
  using In = std::span<const Tensor>;
  EXPECT_THROW(with([](In, In, In) { return Tensors{}; })({&x, 1}), Error);
  EXPECT_THROW(with([](In, In, In t) { return Tensors{sum(t[0])}; })({&x, 1}), Error);
  const Tensor zero = with([](In, In, In) { return Tensors{Tensor{}}; })({&x, 1})[0];
  EXPECT_EQ(zero.values<double>(), std::vector<double>(3));
}

TEST(CustomJvp, UsesTheTransposeOfItsRule) {
  const Tensor x = numbers({2, 3}, Dtype::kF64, 11), w = numbers({3, 2}, Dtype::kF64, 12);
  const Function fn = custom_jvp(
      [](std::span<const Tensor> in) {
        return Tensors{matmul(in[0], in[1]), sum(in[0])};
      },
      [](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor> t) {
        return Tensors{matmul(t[0], in[1]) + matmul(in[0], t[1]), sum(t[0]) * 3};
      });
  const Tensors primals = {x, w};
  const Tensors tangents = {numbers({2, 3}, Dtype::kF64, 13), numbers({3, 2}, Dtype::kF64, 14)};
  const Tensors forward = jvp(fn, primals, tangents).second;
  EXPECT_LE(distance(forward[0], matmul(tangents[0], w) + matmul(x, tangents[1])), 1e-12);
  const Tensors cotangents = {numbers({2, 2}, Dtype::kF64, 15), full({}, 2, Dtype::kF64)};
  const Tensors reverse = vjp(fn, primals, cotangents).second;
  EXPECT_LE(distance(reverse[0], matmul(cotangents[0], transpose(w)) + 6), 1e-12);
  EXPECT_LE(distance(reverse[1], matmul(transpose(x), cotangents[0])), 1e-12);
}

TEST(CheckGradients, TellsWhichArgumentIsWrong) {
  const Tensor x = numbers({3, 4}, Dtype::kF32, 16), w = numbers({4, 2}, Dtype::kF32, 17);
  const Tensor rows = Tensor::of<int32_t>({2, 0});
  const Function right = [](std::span<const Tensor> in) {
    return Tensors{softmax(matmul(take(in[0], in[2]), in[1])), sum(in[0]), in[2]};
  };
  const GradientCheck good = check_gradients(right, std::array{x, w, rows});
  EXPECT_TRUE(good.passed) << good.text;
  EXPECT_EQ(good.errors.size(), 3U);
  EXPECT_EQ(good.errors[2], 0);
  const Function wrong = custom_vjp(
      [](std::span<const Tensor> in) { return Tensors{in[0] + exp(in[1])}; },
      [](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor> t) {
        return Tensors{t[0], t[0] * exp(in[1]) * 1.001};
      });
  const GradientCheck bad = check_gradients(wrong, std::array{x, x});
  EXPECT_FALSE(bad.passed);
  EXPECT_EQ(bad.argument, 1);
  EXPECT_LT(bad.errors[0], 1e-8);
  EXPECT_GT(bad.errors[1], 1e-5);
  EXPECT_NE(bad.text.find("argument 1"), std::string::npos) << bad.text;
  const Function none = [](std::span<const Tensor>) { return Tensors{full({}, NAN, Dtype::kF64)}; };
  EXPECT_FALSE(check_gradients(none, std::array{x}).passed);
  EXPECT_THROW(check_gradients(right, std::array{rows}), Error);
  EXPECT_THROW(check_gradients(right, std::array{x, w, rows}, {.step = 0}), Error);
}

}  // namespace
}  // namespace veery::tensor
