// Derivatives of functions of tensors, against central differences.
#include <gtest/gtest.h>

#include "tensor/reference.h"

namespace veery::tensor {
namespace {

using test::differences;
using test::distance;
using test::numbers;

using Fn = std::function<Tensor(const Tensor&)>;

// The gradient of sum(fn(x) * weights), in reverse and forward mode, against differences.
void expect_gradient(const char* what, const Fn& fn, const Tensor& x, double most = 1e-6) {
  const Tensor y = fn(x);
  const Tensor weights = numbers(y.shape(), Dtype::kF64, 77, 0.5, 2);
  const Fn weighted = [&](const Tensor& at) { return sum(fn(at) * weights); };
  const Function as_function = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{fn(in[0])};
  };
  const Tensor expected = differences(weighted, x);
  const Tensor found = vjp(as_function, {&x, 1}, {&weights, 1}).second.front();
  EXPECT_LE(distance(found, expected), most) << what << "\n"
                                             << found.text() << "\n"
                                             << expected.text();
  // <J t, w> = <t, J' w>
  const Tensor t = numbers(x.shape(), Dtype::kF64, 78);
  const Tensor forward = jvp(as_function, {&x, 1}, {&t, 1}).second.front();
  EXPECT_LE(distance(sum(forward * weights), sum(found * t)), 1e-9) << what;
}

TEST(Gradients, OfElementwiseFunctions) {
  const Tensor x = numbers({2, 5}, Dtype::kF64, 1, 0.1, 0.9);
  const std::pair<const char*, Tensor (*)(const Tensor&)> functions[] = {{"negative", negative},
                                                                         {"abs", abs},
                                                                         {"exp", exp},
                                                                         {"exp2", exp2},
                                                                         {"expm1", expm1},
                                                                         {"log", log},
                                                                         {"log2", log2},
                                                                         {"log10", log10},
                                                                         {"log1p", log1p},
                                                                         {"sqrt", sqrt},
                                                                         {"rsqrt", rsqrt},
                                                                         {"reciprocal", reciprocal},
                                                                         {"sin", sin},
                                                                         {"cos", cos},
                                                                         {"tan", tan},
                                                                         {"asin", asin},
                                                                         {"acos", acos},
                                                                         {"atan", atan},
                                                                         {"sinh", sinh},
                                                                         {"cosh", cosh},
                                                                         {"tanh", tanh},
                                                                         {"asinh", asinh},
                                                                         {"atanh", atanh},
                                                                         {"erf", erf},
                                                                         {"erfinv", erfinv},
                                                                         {"sigmoid", sigmoid},
                                                                         {"silu", silu},
                                                                         {"gelu", gelu},
                                                                         {"gelu_tanh", gelu_tanh},
                                                                         {"softplus", softplus},
                                                                         {"relu", relu},
                                                                         {"square", square}};
  for (const auto& [name, fn] : functions) {
    expect_gradient(name, fn, x, 2e-6);
    expect_gradient(
        name, [fn = fn](const Tensor& at) { return fn(abs(fn(at * 0.3)) * 0.2 + 0.3); }, x, 2e-6);
  }
  expect_gradient(
      "acosh", [](const Tensor& at) { return acosh(at + 1.5); }, x);
  expect_gradient(
      "floor", [](const Tensor& at) { return at * floor(at * 3); }, x);
}

TEST(Gradients, OfBinaryFunctions) {
  const Tensor x = numbers({3, 4}, Dtype::kF64, 2, 0.2, 2);
  const Tensor other = numbers({4}, Dtype::kF64, 3, 0.3, 2);
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Binary> functions[] = {
      {"add", add},     {"subtract", subtract},   {"multiply", multiply},   {"divide", divide},
      {"pow", pow},     {"minimum", minimum},     {"maximum", maximum},     {"atan2", atan2},
      {"hypot", hypot}, {"remainder", remainder}, {"logaddexp", logaddexp}, {"copysign", copysign}};
  for (const auto& [name, fn] : functions) {
    expect_gradient(
        name, [&, fn = fn](const Tensor& at) { return fn(at, other); }, x, 2e-6);
    if (std::string_view(name) == "remainder") continue;  // jumps between the differences
    expect_gradient(
        name, [&, fn = fn](const Tensor& at) { return fn(x, at); }, other, 2e-5);
  }
}

TEST(Gradients, OfReductionsViewsAndProducts) {
  const Tensor x = numbers({3, 4}, Dtype::kF64, 4);
  const Tensor m = numbers({2, 4, 3}, Dtype::kF64, 5);
  const std::pair<const char*, Fn> functions[] = {
      {"sum", [](const Tensor& a) { return sum(a, {0}); }},
      {"prod", [](const Tensor& a) { return prod(a, {1}); }},
      {"prod of zeros",
       [](const Tensor& a) {
         return prod(a * tril(ones({3, 4}, Dtype::kF64)), {0});
       }},
      {"mean", [](const Tensor& a) { return mean(a, {1}, true); }},
      {"var", [](const Tensor& a) { return var(a, {1}, false, 1); }},
      {"max", [](const Tensor& a) { return max(a, {1}); }},
      {"min", [](const Tensor& a) { return min(a, {0}); }},
      {"logsumexp", [](const Tensor& a) { return logsumexp(a, {1}); }},
      {"softmax", [](const Tensor& a) { return softmax(a, 1); }},
      {"log_softmax", [](const Tensor& a) { return log_softmax(a, 0); }},
      {"transpose", [](const Tensor& a) { return transpose(a) * 2; }},
      {"slice",
       [](const Tensor& a) {
         return slice(a, {{{}, {}, -2}, {1, 4, 2}});
       }},
      {"reshape",
       [](const Tensor& a) {
         return exp(reshape(transpose(a), {2, 6}));
       }},
      {"broadcast_to",
       [](const Tensor& a) {
         return broadcast_to(expand_dims(a, 1), {3, 5, 4});
       }},
      {"concatenate",
       [](const Tensor& a) {
         return concatenate({a, a * a}, 1);
       }},
      {"slice_update",
       [](const Tensor& a) {
         return slice_update(a, {{1, 2, 1}}, exp(slice(a, {{0, 1, 1}})));
       }},
      {"pad",
       [](const Tensor& a) {
         return pad(a, {{1, 0}, {0, 2}}, 3);
       }},
      {"roll", [](const Tensor& a) { return roll(a, 1, 0); }},
      {"repeat", [](const Tensor& a) { return repeat(a, 3, 1); }},
      {"matmul left", [&](const Tensor& a) { return matmul(a, m); }},
      {"matmul right",
       [&](const Tensor& a) {
         return matmul(transpose(m, {0, 2, 1}), transpose(a));
       }},
      {"matmul of a batch", [&](const Tensor& a) { return matmul(m, a); }},
      {"matmul vector", [](const Tensor& a) {
         return matmul(a, reshape(slice(a, {{0, 1, 1}}), {4}));
       }}};
  for (const auto& [name, fn] : functions) {
    expect_gradient(name, fn, x, 2e-6);
  }
}

TEST(Gradients, OfGradients) {
  const Tensor x = numbers({4}, Dtype::kF64, 6, 0.5, 1.5);
  const ScalarFunction fn = [](std::span<const Tensor> in) { return sum(exp(in[0]) * sin(in[0])); };
  const auto first = grad(fn);
  const ScalarFunction of_first = [&](std::span<const Tensor> in) { return sum(first(in)[0]); };
  const Tensor second = grad(of_first)({&x, 1})[0];
  EXPECT_LE(distance(second, 2.0 * exp(x) * cos(x)), 1e-12);
  const ScalarFunction of_second = [&](std::span<const Tensor> in) {
    return sum(grad(of_first)(in)[0]);
  };
  EXPECT_LE(distance(grad(of_second)({&x, 1})[0], 2.0 * exp(x) * (cos(x) - sin(x))), 1e-12);
}

// The derivative of the gradient along a direction, against differences of the gradient.
TEST(Gradients, OfGradientsWhereFunctionsHaveCorners) {
  using Fn2 = Tensor (*)(const Tensor&);
  const std::pair<const char*, Fn2> functions[] = {
      {"softplus", [](const Tensor& a) { return sum(softplus(a)); }},
      {"logaddexp", [](const Tensor& a) { return sum(logaddexp(a, flip(a))); }},
      {"prod", [](const Tensor& a) { return prod(a); }}};
  const Tensor x = Tensor::of<double>({0, 2, -1.5, 2, 0});
  for (const auto& [name, fn] : functions) {
    const ScalarFunction scalar = [fn = fn](std::span<const Tensor> in) { return fn(in[0]); };
    const Tensor t = numbers({5}, Dtype::kF64, 11);
    const Function gradient = [&](std::span<const Tensor> in) { return grad(scalar)(in); };
    const Tensor found = jvp(gradient, {&x, 1}, {&t, 1}).second.front();
    const double step = 1e-6;
    const Tensor up = x + t * step, down = x - t * step;
    const Tensor expected = (grad(scalar)({&up, 1})[0] - grad(scalar)({&down, 1})[0]) / (2 * step);
    EXPECT_LE(distance(found, expected), 1e-6) << name << found.text() << expected.text();
  }
  // Infinite operands have no NaN, large ones no infinity.
  const Tensor infinite = full({2}, -INFINITY, Dtype::kF64);
  const auto both = grad([](std::span<const Tensor> in) { return sum(logaddexp(in[0], in[0])); });
  EXPECT_FALSE(any(isnan(both({&infinite, 1})[0])).item<bool>());
  const Tensor large = full({2}, 1e30, Dtype::kF32);
  const auto product = grad([](std::span<const Tensor> in) { return prod(in[0]); });
  EXPECT_EQ(product({&large, 1})[0].values<float>()[1], 1e30F);
}

TEST(Gradients, DoNotPassIntegers) {
  const Tensor table = numbers({4, 2}, Dtype::kF64, 12), rows = Tensor::of<int32_t>({3, 1});
  const Function fn = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{take(in[0], in[1])};
  };
  const Tensor primals[] = {table, rows}, tangents[] = {table, rows};
  EXPECT_EQ(jvp(fn, primals, tangents).second[0].values<double>(),
            take(table, rows).values<double>());
  EXPECT_THROW(value_and_grad([](std::span<const Tensor> in) { return sum(in[0]); }, {0, 0}),
               Error);
}

TEST(Gradients, StopAndStayZero) {
  const Tensor x = numbers({4}, Dtype::kF64, 6), y = numbers({4}, Dtype::kF64, 7);
  const auto both = value_and_grad(
      [](std::span<const Tensor> in) { return sum(in[0] * stop_gradient(in[0])); }, {0, 1});
  const Tensor arguments[] = {x, y};
  const ValueAndGrad result = both(arguments);
  EXPECT_EQ(result.gradients[0].values<double>(), x.values<double>());
  EXPECT_EQ(result.gradients[1].values<double>(), std::vector<double>(4));
  EXPECT_LE(distance(result.value, sum(x * x)), 1e-12);
}

// Tensors that a function captures have gradients, too, also through two checkpoints.
TEST(Checkpoint, DifferentiatesWhatItsFunctionCaptures) {
  const Tensor x = numbers({3, 4}, Dtype::kF64, 13), w = numbers({4, 4}, Dtype::kF64, 14);
  const auto loss = [](bool saved) {
    return grad(
        [saved](std::span<const Tensor> in) {
          const Tensor scaled = in[1] * 2;
          const Function inner = [scaled](std::span<const Tensor> at) {
            return std::vector<Tensor>{tanh(matmul(at[0], scaled))};
          };
          const Function outer = [saved, inner, scaled](std::span<const Tensor> at) {
            const Function used = saved ? checkpoint(inner) : inner;
            return std::vector<Tensor>{used(at)[0] + matmul(at[0], scaled)};
          };
          return sum(square((saved ? checkpoint(outer) : outer)(std::array{in[0]})[0]));
        },
        {0, 1});
  };
  const Tensor arguments[] = {x, w};
  const std::vector<Tensor> plain = loss(false)(arguments), saved = loss(true)(arguments);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(distance(plain[i], saved[i]), 1e-12) << i;
}

// What is evaluated within a transform is released with it.
TEST(Gradients, ReleaseWhatAFunctionEvaluates) {
  clear_cache();
  const Tensor x = numbers({1000}, Dtype::kF32, 15);
  x.eval();
  const size_t before = memory_use().active;
  const auto both = value_and_grad([](std::span<const Tensor> in) {
    Tensor y = in[0];
    for (int i = 0; i < 20; ++i) (y = exp(y * 0.1)).eval();
    return sum(y);
  });
  ValueAndGrad result = both({&x, 1});
  result.value.eval();
  result.gradients[0].eval();
  EXPECT_LE(memory_use().active, before + 2 * 4096 + 1024);
}

// A chain of blocks whose intermediate results are large.
TEST(Checkpoint, HasTheSameGradientsWithLessMemory) {
  const Tensor weight = numbers({64, 64}, Dtype::kF32, 8, -0.1, 0.1);
  const Tensor x = numbers({2048, 64}, Dtype::kF32, 9);
  weight.eval();
  x.eval();
  const Function block = [](std::span<const Tensor> in) {
    Tensor h = in[0];
    for (int i = 0; i < 4; ++i) h = h + tanh(matmul(h, in[1]));
    return std::vector<Tensor>{h};
  };
  const auto run = [&](const Function& of) {
    const ScalarFunction chain = [&](std::span<const Tensor> in) {
      Tensor h = in[0];
      for (int i = 0; i < 24; ++i) h = of(std::array{h, in[1]})[0];
      return sum(h * h);
    };
    const Tensor arguments[] = {x, weight};
    clear_cache();
    reset_peak_memory();
    const size_t before = memory_use().active;
    const Tensor gradient = value_and_grad(chain, {1})(arguments).gradients[0];
    gradient.eval();
    return std::pair(gradient.values<float>(), memory_use().peak - before);
  };
  const auto [plain, plain_peak] = run(block);
  const auto [saved, saved_peak] = run(checkpoint(block));
  EXPECT_EQ(plain, saved);
  EXPECT_LT(3 * saved_peak, plain_peak) << saved_peak << " " << plain_peak;
}

}  // namespace
}  // namespace veery::tensor
