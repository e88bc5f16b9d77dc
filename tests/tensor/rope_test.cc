// Rotary position embeddings of tensors: shapes, layouts and derivatives. tests/capi/rope_test.cc
// compares all modes with their definition.
#include <gtest/gtest.h>

#include <veery/tensor_rope.hpp>

#include "tensor/reference.h"
#include "tensor/rope_reference.h"

namespace veery::tensor {
namespace {

using fast::RopeLayout;
using fast::RopeMode;
using fast::RopeOptions;
using fast::RopePairing;
using fast::RopeScaling;
using test::distance;
using test::numbers;
using veery::test::RopeCase;

std::vector<int32_t> positions_on_axes(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> positions(static_cast<size_t>(4 * count));
  for (int32_t& p : positions) p = static_cast<int32_t>(random.next() % 100000) - 50000;
  return positions;
}

Tensor expected(const RopeCase& c, const Tensor& x, const std::vector<int32_t>& positions) {
  const std::vector<double> y = veery::test::rope_reference(c, x.values<double>(), positions);
  return Tensor::of<double>(std::span<const double>(y), x.shape());
}

struct Mode {
  RopeMode mode;
  int number;
};
constexpr Mode kModes[] = {{RopeMode::kInterleaved, 0},
                           {RopeMode::kNeox, 2},
                           {RopeMode::kMrope, 8},
                           {RopeMode::kVision, 24},
                           {RopeMode::kImrope, 40}};

TEST(TensorRope, ModesLayoutsAndTypesGiveTheDefinition) {
  uint64_t seed = 0;
  for (const auto& [mode, number] : kModes)
    for (const RopeLayout layout : {RopeLayout::kHeadsFirst, RopeLayout::kTokensFirst})
      for (const auto& [type, most] : {std::pair{Dtype::kF64, 1e-9},
                                       {Dtype::kF32, 1e-7},
                                       {Dtype::kBF16, 0.0040},
                                       {Dtype::kF16, 0.0005}}) {
        const bool heads_first = layout == RopeLayout::kHeadsFirst;
        RopeCase c{.batch = 2, .heads = 3, .tokens = 5, .head_dim = 22, .rope_dim = 14};
        c.mode = number, c.heads_first = heads_first, c.theta = 500, c.sections = {3, 2, 1, 1};
        const Tensor x =
            numbers(heads_first ? Shape{2, 3, 5, 22} : Shape{2, 5, 3, 22}, type, ++seed);
        const std::vector<int32_t> at = positions_on_axes(10, seed);
        const bool has_axes = number != 0 && number != 2;
        const Tensor positions =
            has_axes ? Tensor::of<int32_t>(std::span<const int32_t>(at), {4, 2, 5})
                     : Tensor::of<int32_t>(std::span<const int32_t>(at).first(10), {2, 5});
        const RopeOptions options{.rope_dim = 14,
                                  .theta_base = 500,
                                  .mode = mode,
                                  .layout = layout,
                                  .sections = {3, 2, 1, 1}};
        const Tensor y = fast::rope(x, positions, options);
        EXPECT_EQ(y.dtype(), type);
        EXPECT_LE(distance(y, expected(c, x, at)), most) << number << " " << name(type);
      }
}

TEST(TensorRope, ScalingsPairingsAndFactors) {
  RopeCase c{.heads = 2,
             .tokens = 4,
             .head_dim = 16,
             .rope_dim = 8,
             .head_half = true,
             .heads_first = true};
  c.factor = 4, c.context = 2048, c.magnitude = 1.25, c.divisors = {1, 1.5, 2, 3};
  const Tensor x = numbers({2, 4, 16}, Dtype::kF64, 1);
  const std::vector<int32_t> at = positions_on_axes(4, 2);
  const Tensor positions = Tensor::of<int32_t>(std::span<const int32_t>(at).first(4));
  RopeOptions options{.rope_dim = 8, .pairing = RopePairing::kHeadHalf, .factor = 4};
  options.original_context = 2048, options.attention_factor = 1.25;
  options.frequency_factors = c.divisors;
  for (int scaling = 0; scaling < 4; ++scaling) {
    c.scaling = scaling;
    options.scaling = static_cast<RopeScaling>(scaling);
    EXPECT_LE(distance(fast::rope(x, positions, options), expected(c, x, at)), 1e-9) << scaling;
  }
  options.attention_factor = {};
  c.magnitude = 0.1 * std::log(4.0) + 1;
  EXPECT_LE(distance(fast::rope(x, positions, options), expected(c, x, at)), 1e-9);
}

TEST(TensorRope, ShapesOfPositions) {
  const Tensor x = numbers({2, 3, 4, 8}, Dtype::kF32, 1);
  const Tensor line = Tensor::of<int32_t>({5, 2, -7, 900});
  const Tensor y = fast::rope(x, line);
  const Tensor each = stack({line, line});
  const auto expect_same = [&](const Tensor& positions, const RopeOptions& options = {}) {
    EXPECT_EQ(fast::rope(x, positions, options).values<float>(), y.values<float>())
        << positions.text();
  };
  expect_same(each);
  expect_same(flatten(each));
  expect_same(expand_dims(line, 0));
  expect_same(astype(line, Dtype::kI64));
  expect_same(astype(line, Dtype::kU32));
  const RopeOptions imrope{.mode = RopeMode::kImrope, .sections = {2, 1, 1, 0}};
  expect_same(line, imrope);
  expect_same(stack({each, each, each}), imrope);
  expect_same(stack({each, each, each, each}), imrope);
  expect_same(stack({line, line, line, line}), imrope);
  // Of three axes, the fourth is t.
  const Tensor t = line, h = line + 1, w = line + 2;
  const RopeOptions mrope{.mode = RopeMode::kMrope, .sections = {1, 1, 1, 1}};
  EXPECT_EQ(fast::rope(x, stack({t, h, w}), mrope).values<float>(),
            fast::rope(x, stack({t, h, w, t}), mrope).values<float>());
}

TEST(TensorRope, AnOffsetIsItsPositions) {
  const Tensor x = numbers({2, 5, 8}, Dtype::kF32, 1);
  for (const int64_t offset : {int64_t{0}, int64_t{1000}, int64_t{-3}, int64_t{INT32_MAX - 4}}) {
    std::vector<int32_t> line;
    for (int64_t i = 0; i < 5; ++i) line.push_back(static_cast<int32_t>(offset + i));
    const Tensor positions = Tensor::of<int32_t>(std::span<const int32_t>(line));
    EXPECT_EQ(fast::rope(x, offset).values<float>(), fast::rope(x, positions).values<float>());
  }
  EXPECT_EQ(fast::rope(x).values<float>(), fast::rope(x, 0).values<float>());
}

TEST(TensorRope, ViewsAndEmptyTensors) {
  const Tensor x = numbers({4, 10, 16}, Dtype::kF32, 1);
  const RopeOptions tokens_first{.layout = RopeLayout::kTokensFirst};
  const Tensor turned = transpose(x, {1, 0, 2});  // [tokens, heads, ..] as a view
  EXPECT_EQ(transpose(fast::rope(turned, 3, tokens_first), {1, 0, 2}).values<float>(),
            fast::rope(x, 3).values<float>());
  const Tensor part = slice(x, {{}, {.start = 1, .step = 3}, {.step = -1}});
  const Tensor positions = Tensor::of<int32_t>({9, 8, 1});
  EXPECT_EQ(fast::rope(part, positions).values<float>(),
            fast::rope(part * 1, positions).values<float>());
  const Tensor wide = broadcast_to(slice(x, {{.stop = 1}}), {6, 10, 16});
  EXPECT_EQ(fast::rope(wide, 3).values<float>(), fast::rope(wide * 1, 3).values<float>());
  EXPECT_EQ(fast::rope(zeros({0, 3, 4})).values<float>().size(), 0U);
  EXPECT_EQ(fast::rope(zeros({2, 0, 4})).shape(), (Shape{2, 0, 4}));
  EXPECT_EQ(fast::rope(zeros({2, 0, 4})).values<float>().size(), 0U);
}

TEST(TensorRope, Gradients) {
  for (const auto& [mode, number] : kModes) {
    RopeOptions options{.rope_dim = 6, .theta_base = 50, .mode = mode, .sections = {1, 1, 1, 0}};
    options.attention_factor = 1.5;
    const Tensor x = numbers({2, 3, 8}, Dtype::kF64, 1);
    const Tensor weights = numbers({2, 3, 8}, Dtype::kF64, 2);
    const auto fn = [&](const Tensor& at) { return fast::rope(at, 5, options); };
    const auto weighted = [&](const Tensor& at) { return sum(square(fn(at)) * weights); };
    const Function both = [&](std::span<const Tensor> in) {
      return std::vector<Tensor>{fn(in[0])};
    };
    const Tensor found =
        grad([&](std::span<const Tensor> in) { return weighted(in[0]); })({&x, 1}).front();
    EXPECT_LE(distance(found, test::differences(weighted, x)), 1e-7) << number;
    // The Jacobian of a linear function is the function, and its transpose rotates back.
    const Tensor tangent = numbers({2, 3, 8}, Dtype::kF64, 3);
    EXPECT_LE(distance(jvp(both, {&x, 1}, {&tangent, 1}).second.front(), fn(tangent)), 0) << number;
    const Tensor back = vjp(both, {&x, 1}, {&tangent, 1}).second.front();
    EXPECT_LE(distance(sum(fn(weights) * tangent), sum(weights * back)), 1e-12) << number;
    // Of the rotated dimensions, R' R is the square of the magnitude.
    const Tensor y = fn(x);
    const Tensor twice = vjp(both, {&x, 1}, {&y, 1}).second.front();
    const Tensor rotated = slice(twice, {{}, {}, {.stop = 6}});
    EXPECT_LE(distance(rotated, slice(x, {{}, {}, {.stop = 6}}) * 2.25), 1e-12) << number;
  }
}

TEST(TensorRope, SecondDerivatives) {
  const Tensor x = numbers({1, 2, 4}, Dtype::kF64, 1);
  const auto first = [](const Tensor& at) {
    return grad([](std::span<const Tensor> in) { return sum(exp(fast::rope(in[0], 3))); })({&at, 1})
        .front();
  };
  const Tensor found =
      grad([&](std::span<const Tensor> in) { return sum(first(in[0]) * in[0]); })({&x, 1}).front();
  const auto weighted = [&](const Tensor& at) { return sum(first(at) * at); };
  EXPECT_LE(distance(found, test::differences(weighted, x)), 1e-6);
}

void expect_error(const std::string& message, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(std::string(error.what()), message);
  }
}

TEST(TensorRope, ErrorsNameTheArgument) {
  const Tensor x = zeros({2, 3, 4, 8});
  const Tensor four = zeros({4}, Dtype::kI32);
  expect_error("rope: an argument is no tensor", [] { fast::rope(Tensor{}); });
  expect_error("rope: x is i32, expected floats", [&] { fast::rope(zeros({3, 4}, Dtype::kI32)); });
  expect_error("rope: x has shape [4], expected 2 dimensions or more",
               [&] { fast::rope(zeros({4})); });
  expect_error("rope: x has shape [3, 4], expected 3 dimensions or more", [&] {
    fast::rope(zeros({3, 4}), 0, {.layout = RopeLayout::kTokensFirst});
  });
  expect_error("rope: positions are f32, expected integers", [&] { fast::rope(x, zeros({4})); });
  expect_error("rope: positions of shape [3], expected [4], [2, 4] or [8]",
               [&] { fast::rope(x, zeros({3}, Dtype::kI32)); });
  expect_error(
      "rope: positions of shape [2, 4], expected [4], [2, 4] or [8], with 3 or 4 axes in front if "
      "there is more than one dimension",
      [&] {
        fast::rope(x, zeros({2, 4}, Dtype::kI32),
                   {.mode = RopeMode::kMrope, .sections = {4, 0, 0, 0}});
      });
  expect_error("rope: offset is 2147483647 with 4 tokens, expected positions of 32 bits",
               [&] { fast::rope(x, INT32_MAX); });
  expect_error("rope: head_dim is 5, expected an even number", [&] {
    fast::rope(zeros({4, 5}), four);
  });
  expect_error("rope: rope_dim is 10, expected at most head_dim, 8",
               [&] { fast::rope(x, four, {.rope_dim = 10}); });
  expect_error("rope: rope_dim is -2, expected 1 or more",
               [&] { fast::rope(x, four, {.rope_dim = -2}); });
  expect_error("rope: theta_base is 0, expected a finite number above 0",
               [&] { fast::rope(x, four, {.theta_base = 0}); });
  expect_error("rope: frequency_factors are 3, expected rope_dim / 2 = 4", [&] {
    fast::rope(x, four, {.frequency_factors = {1, 2, 3}});
  });
}

}  // namespace
}  // namespace veery::tensor
