// Cross entropy against its definition, differences and composed functions.
#include <algorithm>

#include "tensor/fast/checks.h"

namespace veery::tensor::fast {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

constexpr CrossEntropyOptions kNone{.reduction = Reduction::kNone};

// The loss of each row from the definition.
std::vector<double> expected_losses(const Tensor& logits, const std::vector<int64_t>& targets,
                                    double smoothing = 0) {
  const std::vector<double> x = logits.values<double>();
  const auto classes = static_cast<size_t>(logits.dim(-1));
  std::vector<double> losses;
  for (size_t r = 0; r < targets.size(); ++r) {
    double most = -INFINITY, sum = 0, total = 0;
    for (size_t c = 0; c < classes; ++c) most = std::max(most, x[r * classes + c]);
    for (size_t c = 0; c < classes; ++c) sum += std::exp(x[r * classes + c] - most);
    for (size_t c = 0; c < classes; ++c) total += x[r * classes + c];
    const double hit = x[r * classes + static_cast<size_t>(targets[r])];
    losses.push_back(most + std::log(sum) - (1 - smoothing) * hit -
                     smoothing * total / static_cast<double>(classes));
  }
  return losses;
}
Tensor some_targets(int64_t count, int64_t classes, uint64_t seed) {
  return astype(numbers({count}, Dtype::kF64, seed, 0, static_cast<double>(classes)), Dtype::kI32);
}

TEST(FastCrossEntropy, IsItsDefinitionInEveryType) {
  for (const Dtype type : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16})
    for (const int64_t classes : {1, 2, 17, 1024, 3001})
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        const Tensor x = numbers({7, classes}, type, 1, -8, 8);
        const Tensor targets = some_targets(7, classes, 2);
        const std::vector<double> losses = expected_losses(x, targets.values<int64_t>(), smoothing);
        CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = Reduction::kNone};
        const Tensor found = cross_entropy(x, targets, options);
        EXPECT_EQ(found.dtype(), type);
        EXPECT_LE(distance(found, Tensor::of<double>(std::span(losses))), tolerance(type))
            << name(type) << " " << classes << " " << smoothing;
        double total = 0;
        for (const double loss : losses) total += loss;
        options.reduction = Reduction::kSum;
        EXPECT_LE(distance(cross_entropy(x, targets, options).item<double>(), total),
                  2 * tolerance(type));
        options.reduction = Reduction::kMean;
        EXPECT_LE(distance(cross_entropy(x, targets, options).item<double>(), total / 7),
                  2 * tolerance(type));
      }
}

TEST(FastCrossEntropy, AgreesWithComposedFunctions) {
  const Tensor x = numbers({2, 50, 300}, Dtype::kF32, 3, -20, 20);
  const Tensor targets = reshape(some_targets(100, 300, 4), {2, 50});
  const Tensor expected = negative(take_along_axis(log_softmax(x), expand_dims(targets, -1), -1));
  EXPECT_LE(distance(cross_entropy(x, targets, kNone), squeeze(expected, {-1})), 4e-6);
  EXPECT_LE(distance(cross_entropy(x, targets), mean(expected)), 2e-6);
}

TEST(FastCrossEntropy, IgnoresAndWeighsTokens) {
  const Tensor x = numbers({5, 9}, Dtype::kF64, 5);
  const Tensor targets = Tensor::of<int64_t>({3, -100, 8, 0, -100});
  const Tensor weights = Tensor::of<double>({2, NAN, 0.5, 1, 7});
  const std::vector<double> losses = expected_losses(x, {3, 0, 8, 0, 0});
  CrossEntropyOptions options{
      .ignore_index = -100, .weights = weights, .reduction = Reduction::kNone};
  const std::vector<double> expected{2 * losses[0], 0, 0.5 * losses[2], losses[3], 0};
  EXPECT_LE(distance(cross_entropy(x, targets, options), Tensor::of(std::span(expected))), 1e-12);
  options.reduction = Reduction::kSum;
  const double total = expected[0] + expected[2] + expected[3];
  EXPECT_NEAR(cross_entropy(x, targets, options).item<double>(), total, 1e-12);
  options.reduction = Reduction::kMean;
  EXPECT_NEAR(cross_entropy(x, targets, options).item<double>(), total / 3.5, 1e-12);
  options.weights.reset();
  EXPECT_NEAR(cross_entropy(x, targets, options).item<double>(),
              (losses[0] + losses[2] + losses[3]) / 3, 1e-12);
  // Without a token that counts, loss and gradient are 0; without tokens, too.
  options.ignore_index = 1;
  const Fn all_ignored = [&](auto at) {
    return cross_entropy(at[0], full({5}, 1, Dtype::kI32), options);
  };
  EXPECT_EQ(all_ignored({&x, 1}).item<double>(), 0);
  EXPECT_EQ(gradients(all_ignored, {&x, 1}, ones({}, Dtype::kF64))[0].values<double>(),
            std::vector<double>(45));
  EXPECT_EQ(cross_entropy(zeros({0, 9}), zeros({0}, Dtype::kI32)).item<double>(), 0);
  EXPECT_EQ(cross_entropy(zeros({9}), full({}, 4, Dtype::kU8)).item<float>(),
            static_cast<float>(std::log(9.0)));
}

TEST(FastCrossEntropy, HasDerivativesOfAnyOrder) {
  const Tensor targets = Tensor::of<int32_t>({2, 5, 0, 1}, {2, 2});
  const Tensor in[] = {numbers({2, 2, 6}, Dtype::kF64, 6), numbers({2, 2}, Dtype::kF64, 7, 0.5, 1)};
  for (const double smoothing : {0.0, 0.2})
    for (const Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
      CrossEntropyOptions options{
          .ignore_index = 0, .label_smoothing = smoothing, .reduction = reduction};
      expect_derivatives(
          "cross_entropy", [&](auto at) { return cross_entropy(at[0], targets, options); },
          std::span(in).first(1));
      expect_derivatives(
          "cross_entropy with weights",
          [&](auto at) {
            CrossEntropyOptions own = options;
            own.weights = at[1];
            return cross_entropy(at[0], targets, own);
          },
          in);
    }
}

// The gradient of logits is (softmax - target) times the cotangent; that of f16 and bf16 is the one
// of f32, rounded.
TEST(FastCrossEntropy, GradientIsSoftmaxMinusTarget) {
  const Tensor targets = some_targets(30, 2100, 8);
  const Fn fn = [&](auto at) { return cross_entropy(at[0], targets, kNone); };
  const Tensor x = numbers({30, 2100}, Dtype::kBF16, 9, -9, 9), t = numbers({30}, Dtype::kBF16, 10);
  const Tensor wide[] = {astype(x, Dtype::kF32)};
  const Tensor found = gradients(fn, wide, astype(t, Dtype::kF32))[0];
  const Tensor f64 = astype(x, Dtype::kF64);
  const Tensor expected =
      (softmax(f64) - one_hot(targets, 2100, Dtype::kF64)) * expand_dims(astype(t, Dtype::kF64), 1);
  EXPECT_LE(distance(found, expected), 2e-6);
  EXPECT_EQ(gradients(fn, {&x, 1}, t)[0].values<float>(),
            astype(found, Dtype::kBF16).values<float>());
}

TEST(FastCrossEntropy, DoesNotDependOnTheLayout) {
  const Tensor base = numbers({1500, 4, 5}, Dtype::kBF16, 11);
  const Tensor x = slice(transpose(base, {2, 1, 0}), {{{}, {}, -1}, {}, {{}, {}, 2}});
  const Tensor targets = transpose(reshape(some_targets(20, 750, 12), {4, 5}));
  const Tensor copy = copied(x), own = copied(targets);
  EXPECT_EQ(cross_entropy(x, targets, kNone).values<float>(),
            cross_entropy(copy, own, kNone).values<float>());
  const Tensor t = broadcast_to(numbers({4}, Dtype::kBF16, 13), {5, 4});
  EXPECT_EQ(
      gradients([&](auto at) { return cross_entropy(at[0], targets, kNone); }, {&x, 1}, t)[0]
          .values<float>(),
      gradients([&](auto at) { return cross_entropy(at[0], own, kNone); }, {&copy, 1}, copied(t))[0]
          .values<float>());
}

TEST(FastCrossEntropy, SpecialNumbers) {
  const double inf = INFINITY;
  const Tensor x =
      Tensor::of<double>({-inf, 1, 2, 88, 900, -900, NAN, 0, 0, -inf, -inf, -inf}, {4, 3});
  for (const Dtype type : {Dtype::kF32, Dtype::kF64}) {
    const std::vector<double> losses =
        cross_entropy(astype(x, type), Tensor::of<int32_t>({1, 0, 1, 2}), kNone).values<double>();
    EXPECT_NEAR(losses[0], std::log(std::exp(1) + 1), 1e-6);
    EXPECT_NEAR(losses[1], 812, 1e-4);
    EXPECT_TRUE(std::isnan(losses[2]));
    EXPECT_TRUE(std::isnan(losses[3]));
    EXPECT_EQ(cross_entropy(astype(x, type), zeros({4}, Dtype::kI32), kNone).values<double>()[0],
              inf);
  }
  // Large sums of f16, and a loss without a matrix of probabilities.
  EXPECT_NEAR(cross_entropy(zeros({1, 70000}, Dtype::kF16), zeros({1}, Dtype::kI32)).item<double>(),
              std::log(70000), 5e-3);
  clear_cache();
  const Tensor logits = numbers({64, 4096}, Dtype::kF32, 14);
  logits.eval();
  reset_peak_memory();
  const size_t before = memory_use().active;
  cross_entropy(logits, zeros({64}, Dtype::kI32)).eval();
  EXPECT_LT(memory_use().peak - before, size_t{1} << 16);
}

TEST(FastCrossEntropy, NamesWhatIsWrong) {
  const Tensor x = ones({2, 3}), targets = zeros({2}, Dtype::kI32);
  EXPECT_EQ(message_of([&] { cross_entropy(Tensor(), targets); }),
            "cross_entropy: an argument is no tensor");
  EXPECT_EQ(message_of([&] { cross_entropy(x, Tensor()); }),
            "cross_entropy: an argument is no tensor");
  EXPECT_EQ(message_of([&] { cross_entropy(targets, targets); }),
            "cross_entropy: logits of i32, expected floats");
  EXPECT_EQ(message_of([&] { cross_entropy(x, ones({2})); }),
            "cross_entropy: targets of f32, expected integers");
  EXPECT_EQ(message_of([&] { cross_entropy(x, zeros({3}, Dtype::kI32)); }),
            "cross_entropy: logits [2, 3] and targets [3], expected [.., classes] and [..]");
  EXPECT_EQ(message_of([&] { cross_entropy(ones({}), zeros({}, Dtype::kI32)); }),
            "cross_entropy: logits [] and targets [], expected [.., classes] and [..]");
  EXPECT_EQ(message_of([&] { cross_entropy(x, targets, {.label_smoothing = 1.5}); }),
            "cross_entropy: label_smoothing is 1.5, expected 0 to 1");
  EXPECT_EQ(message_of([&] { cross_entropy(x, targets, {.weights = targets}); }),
            "cross_entropy: weights of i32, expected floats");
  EXPECT_EQ(message_of([&] {
              cross_entropy(x, targets, {.weights = ones({2, 2})});
            }),
            "cross_entropy: weights [2, 2] do not broadcast to targets [2]");
  for (const int32_t target : {3, -1}) {
    const Tensor loss = cross_entropy(x, Tensor::of<int32_t>({0, target}), {.ignore_index = -100});
    EXPECT_EQ(message_of([&] { loss.eval(); }),
              "cross_entropy: target " + std::to_string(target) + " of 3 classes");
  }
}

}  // namespace
}  // namespace veery::tensor::fast
