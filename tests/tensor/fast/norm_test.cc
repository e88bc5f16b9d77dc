// RMS norm and layer norm against their definitions, differences and composed functions.
#include "tensor/fast/checks.h"

namespace veery::tensor::fast {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

// A norm of rows of n elements from its definition. Empty weights are 1, empty biases 0.
std::vector<double> expected_norm(const Tensor& x, bool centred, const std::vector<double>& weight,
                                  const std::vector<double>& bias, double eps) {
  std::vector<double> values = x.values<double>();
  const auto n = static_cast<size_t>(x.dim(-1));
  for (size_t first = 0; first < values.size(); first += n) {
    double mean = 0, squares = 0;
    for (size_t i = 0; centred && i < n; ++i) mean += values[first + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) squares += std::pow(values[first + i] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(n) + eps);
    for (size_t i = 0; i < n; ++i)
      values[first + i] =
          (values[first + i] - mean) / deviation * (weight.empty() ? 1 : weight[i]) +
          (bias.empty() ? 0 : bias[i]);
  }
  return values;
}

TEST(FastNorm, IsItsDefinitionInEveryType) {
  for (const Dtype type : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16})
    for (const int64_t n : {1, 15, 16, 17, 64, 200, 1025}) {
      const Tensor x = numbers({3, 5, n}, type, 1), w = numbers({n}, type, 2);
      const Tensor b = numbers({n}, type, 3);
      const std::vector<double> weight = w.values<double>(), bias = b.values<double>();
      const auto expect = [&](const Tensor& y, const std::vector<double>& expected) {
        EXPECT_EQ(y.dtype(), type);
        EXPECT_EQ(y.shape(), x.shape());
        EXPECT_LE(distance(y, Tensor::of<double>(std::span(expected), x.shape())), tolerance(type))
            << name(type) << " " << n;
      };
      expect(rms_norm(x), expected_norm(x, false, {}, {}, 1e-5));
      expect(rms_norm(x, w, 0.25), expected_norm(x, false, weight, {}, 0.25));
      expect(layer_norm(x), expected_norm(x, true, {}, {}, 1e-5));
      expect(layer_norm(x, {}, b, 0.25), expected_norm(x, true, {}, bias, 0.25));
      expect(layer_norm(x, w, b, 0.25), expected_norm(x, true, weight, bias, 0.25));
    }
}

TEST(FastNorm, AgreesWithComposedFunctions) {
  const Tensor x = numbers({40, 300}, Dtype::kF32, 4, -1, 5), w = numbers({300}, Dtype::kF32, 5);
  const Tensor centred = x - mean(x, {1}, true);
  EXPECT_LE(distance(layer_norm(x, w), centred * rsqrt(var(x, {1}, true) + 1e-5) * w), 2e-6);
  EXPECT_LE(distance(rms_norm(x, w), x * rsqrt(mean(square(x), {1}, true) + 1e-5) * w), 2e-6);
}

TEST(FastNorm, HasDerivativesOfAnyOrder) {
  for (const Shape& shape : {Shape{5}, Shape{2, 3, 17}}) {
    const Tensor in[] = {numbers(shape, Dtype::kF64, 6),
                         numbers({shape.back()}, Dtype::kF64, 7, 0.5, 1.5),
                         numbers({shape.back()}, Dtype::kF64, 8)};
    const std::string what = std::to_string(shape.size()) + " dimensions ";
    expect_derivatives(
        what + "rms_norm", [](auto at) { return rms_norm(at[0]); }, std::span(in).first(1));
    expect_derivatives(
        what + "rms_norm with weight", [](auto at) { return rms_norm(at[0], at[1], 0.1); },
        std::span(in).first(2));
    expect_derivatives(
        what + "layer_norm", [](auto at) { return layer_norm(at[0], at[1], at[2]); }, in);
    expect_derivatives(
        what + "layer_norm without weight", [](auto at) { return layer_norm(at[0], {}, at[1]); },
        std::span(in).first(2));
  }
}

// The gradients of many rows are sums over chunks of them.
TEST(FastNorm, GradientsOfManyRowsAreThoseOfComposedFunctions) {
  const Tensor in[] = {numbers({9000, 20}, Dtype::kF32, 9), numbers({20}, Dtype::kF32, 10, 0.5, 1),
                       numbers({20}, Dtype::kF32, 11)};
  const Tensor t = numbers({9000, 20}, Dtype::kF32, 12);
  const std::vector<Tensor> found =
      gradients([](auto at) { return layer_norm(at[0], at[1], at[2]); }, in, t);
  const Tensor wide[] = {astype(in[0], Dtype::kF64), astype(in[1], Dtype::kF64),
                         astype(in[2], Dtype::kF64)};
  const std::vector<Tensor> expected = gradients(
      [](auto at) {
        const Tensor x = at[0] - mean(at[0], {1}, true);
        return x * rsqrt(mean(square(x), {1}, true) + 1e-5) * at[1] + at[2];
      },
      wide, astype(t, Dtype::kF64));
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(distance(found[i], expected[i]), 1e-5) << i;
}

// Results and gradients of f16 and bf16 are those of f32, rounded.
TEST(FastNorm, RoundsOnce) {
  for (const Dtype type : {Dtype::kBF16, Dtype::kF16}) {
    const Tensor in[] = {numbers({70, 33}, type, 13), numbers({33}, type, 14),
                         numbers({33}, type, 15)};
    const Tensor wide[] = {astype(in[0], Dtype::kF32), astype(in[1], Dtype::kF32),
                           astype(in[2], Dtype::kF32)};
    const Tensor t = numbers({70, 33}, type, 16);
    const Fn fn = [](auto at) { return layer_norm(at[0], at[1], at[2]); };
    EXPECT_EQ(fn(in).values<float>(), astype(fn(wide), type).values<float>());
    const std::vector<Tensor> found = gradients(fn, in, t);
    const std::vector<Tensor> expected = gradients(fn, wide, astype(t, Dtype::kF32));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].dtype(), type);
      EXPECT_EQ(found[i].values<float>(), astype(expected[i], type).values<float>()) << i;
    }
  }
}

TEST(FastNorm, DoesNotDependOnTheLayout) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16}) {
    const Tensor base = numbers({37, 6, 10}, type, 17), row = numbers({74}, type, 18);
    const Tensor x = transpose(base, {1, 2, 0});  // [6, 10, 37]
    const Tensor w = slice(row, {{{}, {}, -2}});
    const Tensor t = broadcast_to(numbers({10, 1}, type, 19), {6, 10, 37});
    const Fn fn = [](auto at) { return layer_norm(at[0], at[1]); };
    const Tensor views[] = {x, w}, copies[] = {copied(x), copied(w)};
    EXPECT_EQ(fn(views).values<float>(), fn(copies).values<float>());
    const std::vector<Tensor> found = gradients(fn, views, t);
    const std::vector<Tensor> expected = gradients(fn, copies, copied(t));
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(found[i].values<float>(), expected[i].values<float>()) << i;
  }
}

TEST(FastNorm, TakesEmptyTensorsAndPromotes) {
  for (const Shape& shape : {Shape{0, 5}, Shape{3, 0}}) {
    const Tensor in[] = {zeros(shape), ones({shape[1]}), ones({shape[1]})};
    const Fn fn = [](auto at) { return layer_norm(at[0], at[1], at[2]); };
    EXPECT_EQ(fn(in).values<float>().size(), 0U);
    const std::vector<Tensor> found = gradients(fn, in, zeros(shape));
    EXPECT_EQ(found[0].shape(), shape);
    EXPECT_EQ(found[1].values<float>(), std::vector<float>(static_cast<size_t>(shape[1])));
    EXPECT_EQ(found[2].values<float>(), std::vector<float>(static_cast<size_t>(shape[1])));
  }
  const Tensor y = rms_norm(ones({2, 3}, Dtype::kBF16), ones({3}));
  EXPECT_EQ(y.dtype(), Dtype::kF32);
  EXPECT_NEAR(y.values<double>()[4], 1, 1e-5);
  // A row of zeros, and one whose squares would not fit into f16.
  EXPECT_EQ(rms_norm(zeros({4})).values<float>(), std::vector<float>(4));
  EXPECT_EQ(rms_norm(full({4}, 1e4, Dtype::kF16)).values<float>(), std::vector<float>(4, 1));
}

TEST(FastNorm, NamesWhatIsWrong) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(message_of([&] { rms_norm(Tensor()); }), "rms_norm: an argument is no tensor");
  EXPECT_EQ(message_of([&] { rms_norm(arange(0, 3)); }), "rms_norm: x of i32, expected floats");
  EXPECT_EQ(message_of([&] { rms_norm(ones({})); }),
            "rms_norm: x has no dimensions, expected 1 or more");
  EXPECT_EQ(message_of([&] { rms_norm(x, {}, -1); }), "rms_norm: eps is -1, expected 0 or more");
  EXPECT_EQ(message_of([&] { layer_norm(x, {}, {}, INFINITY); }),
            "layer_norm: eps is inf, expected 0 or more");
  EXPECT_EQ(message_of([&] { rms_norm(x, ones({2})); }),
            "rms_norm: weight has the shape [2], expected [3]");
  EXPECT_EQ(message_of([&] {
              layer_norm(x, {}, ones({1, 3}));
            }),
            "layer_norm: bias has the shape [1, 3], expected [3]");
  EXPECT_EQ(message_of([&] { layer_norm(x, ones({3}, Dtype::kBool)); }),
            "layer_norm: weight of bool, expected floats");
}

}  // namespace
}  // namespace veery::tensor::fast
