// veery_rope_forward and veery_rope_backward against their definition in f64.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <veery/veery.h>

#include <functional>
#include <limits>
#include <string>

#include "base/random.h"
#include "dtype/half.h"
#include "tensor/rope_reference.h"

namespace veery {
namespace {

using test::RopeCase;

veery_rope_params default_params() {
  veery_rope_params params;
  EXPECT_EQ(veery_rope_params_init(&params, sizeof params), VEERY_OK) << veery_last_message();
  return params;
}

veery_rope_params params_of(const RopeCase& c, int32_t dtype) {
  veery_rope_params p = default_params();
  p.batch = static_cast<uint32_t>(c.batch), p.n_heads = static_cast<uint32_t>(c.heads);
  p.seq_len = static_cast<uint32_t>(c.tokens), p.head_dim = static_cast<uint32_t>(c.head_dim);
  p.rope_dim = static_cast<uint32_t>(c.rope_dim), p.mode = c.mode, p.theta_base = c.theta;
  std::copy(c.sections.begin(), c.sections.end(), p.sections);
  p.pairing = c.head_half ? VEERY_ROPE_PAIR_HEAD_DIM : VEERY_ROPE_PAIR_ROPE_DIM;
  p.layout = c.heads_first ? VEERY_ROPE_HEADS_FIRST : VEERY_ROPE_TOKENS_FIRST;
  p.dtype = dtype, p.scaling = c.scaling, p.untruncated = c.truncate ? 0 : 1;
  p.factor = c.factor, p.original_context = c.context;
  p.beta_fast = c.beta_fast, p.beta_slow = c.beta_slow;
  p.low_freq_factor = c.low, p.high_freq_factor = c.high, p.attention_factor = c.magnitude;
  p.frequency_factors = c.divisors.data(), p.frequency_factor_count = c.divisors.size();
  return p;
}

template <typename T>
std::vector<T> rotate(const veery_rope_params& p, const std::vector<T>& x,
                      const std::vector<int32_t>& positions, bool back) {
  std::vector<T> y(x.size());
  const auto call = back ? veery_rope_backward : veery_rope_forward;
  EXPECT_EQ(call(x.data(), x.size(), positions.data(), positions.size(), y.data(), y.size(), &p),
            VEERY_OK)
      << veery_last_message();
  return y;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& x) {
  std::vector<uint16_t> y;
  for (const float v : x) y.push_back(f32_to_bf16(v));
  return y;
}
std::vector<float> to_f32(const std::vector<uint16_t>& x) {
  std::vector<float> y;
  for (const uint16_t v : x) y.push_back(bf16_to_f32(v));
  return y;
}

std::vector<float> numbers(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = random.normal();
  return x;
}
std::vector<int32_t> positions_for(const RopeCase& c, uint64_t seed, int32_t most = 1 << 20) {
  Random random(seed);
  std::vector<int32_t> positions(static_cast<size_t>(4 * c.batch * c.tokens));
  for (int32_t& p : positions)
    p = static_cast<int32_t>(random.next() % (2 * static_cast<uint32_t>(most) + 1)) - most;
  return positions;
}

// The error of f32 is that of one rounding and of the angle: positions are at most 2^20.
void expect_near(const RopeCase& c, const std::vector<float>& x, const std::vector<float>& y,
                 const std::vector<int32_t>& positions) {
  const std::vector<double> expected =
      test::rope_reference(c, std::vector<double>(x.begin(), x.end()), positions);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_LE(std::fabs(y[i] - expected[i]), 6.1e-8 * std::fabs(expected[i]) + 1e-8)
        << "element " << i << ": " << y[i] << ", expected " << expected[i];
}

RopeCase random_case(uint64_t seed) {
  Random random(seed);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random.next() % n); };
  constexpr int kModes[] = {0, 2, 8, 24, 40};
  RopeCase c{.batch = 1 + below(3), .heads = 1 + below(5), .tokens = 1 + below(7)};
  c.head_dim = 2 * (1 + below(70));
  c.rope_dim = below(2) == 0 ? c.head_dim : 2 * (1 + below(static_cast<uint32_t>(c.head_dim / 2)));
  c.mode = kModes[below(5)];
  c.head_half = below(3) == 0, c.heads_first = below(2) == 0;
  c.theta = std::pow(10.0, 2 + 5 * static_cast<double>(random.uniform()));
  for (uint32_t& pairs : c.sections) pairs = static_cast<uint32_t>(below(25));
  if (below(2) == 0) c.sections[3] = 0;
  c.sections[0] += 1;
  c.scaling = static_cast<int>(below(c.mode == 24 ? 2 : 4));
  c.factor = 1 + 15 * static_cast<double>(random.uniform());
  c.context = static_cast<double>(512 << below(6));
  c.truncate = below(2) == 0;
  c.magnitude = 0.5 + static_cast<double>(random.uniform());
  if (below(4) == 0)
    for (int64_t i = 0; i < c.rope_dim / 2; ++i) c.divisors.push_back(0.5F + 3 * random.uniform());
  return c;
}

TEST(Rope, RandomParametersGiveTheDefinition) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RopeCase c = random_case(seed);
    SCOPED_TRACE("parameters " + std::to_string(seed));
    const std::vector<int32_t> positions = positions_for(c, seed + 1000);
    const std::vector<float> x = to_f32(to_bf16(numbers(c.size(), seed + 2000)));
    for (const bool back : {false, true}) {
      c.back = back;
      const std::vector<float> y = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, back);
      expect_near(c, x, y, positions);
      // bf16 is f32, rounded.
      EXPECT_EQ(rotate(params_of(c, VEERY_DTYPE_BF16), to_bf16(x), positions, back), to_bf16(y));
    }
    if (HasFatalFailure()) return;
  }
}

TEST(Rope, BackwardOfForwardIsTheSquareOfTheMagnitude) {
  for (uint64_t seed = 500; seed < 600; ++seed) {
    const RopeCase c = random_case(seed);
    const veery_rope_params p = params_of(c, VEERY_DTYPE_F32);
    const std::vector<float> x = numbers(c.size(), seed);
    const std::vector<int32_t> positions = positions_for(c, seed, INT32_MAX);
    const std::vector<float> y = rotate(p, rotate(p, x, positions, false), positions, true);
    std::vector<double> factor(static_cast<size_t>(c.head_dim), 1.0);
    for (int64_t pair = 0; pair < c.rope_dim / 2; ++pair)
      for (const int64_t dim : test::rope_pair(c, pair))
        factor[static_cast<size_t>(dim)] = c.magnitude * c.magnitude;
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(y[i], x[i] * factor[i % factor.size()], 1e-6) << "parameters " << seed;
  }
}

// <R x, g> = <x, R' g>.
TEST(Rope, BackwardIsTheTransposeOfForward) {
  for (uint64_t seed = 600; seed < 650; ++seed) {
    const RopeCase c = random_case(seed);
    const veery_rope_params p = params_of(c, VEERY_DTYPE_F32);
    const std::vector<float> x = numbers(c.size(), seed), g = numbers(c.size(), seed + 1);
    const std::vector<int32_t> positions = positions_for(c, seed);
    const std::vector<float> y = rotate(p, x, positions, false), d = rotate(p, g, positions, true);
    double forward = 0, backward = 0, size = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      forward += double{y[i]} * g[i];
      backward += double{x[i]} * d[i];
      size += std::fabs(double{y[i]} * g[i]);
    }
    EXPECT_NEAR(forward, backward, 1e-6 * size) << "parameters " << seed;
  }
}

// Document 004 states one layout and uses the other. With distinct positions they differ.
TEST(Rope, LayoutsHaveTheirOwnOrder) {
  RopeCase c{.batch = 2, .heads = 3, .tokens = 5, .head_dim = 8, .rope_dim = 8};
  const std::vector<float> x = numbers(c.size(), 1);
  std::vector<float> moved(x.size());  // heads first
  const auto at = [&](int64_t b, int64_t first, int64_t second, int64_t seconds) {
    return ((b * (c.heads * c.tokens) + first * seconds + second) * c.head_dim);
  };
  const auto each_head = [&](const auto& fn) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t t = 0; t < c.tokens; ++t)
        for (int64_t h = 0; h < c.heads; ++h)
          for (int64_t i = 0; i < c.head_dim; ++i)
            fn(static_cast<size_t>(at(b, t, h, c.heads) + i),
               static_cast<size_t>(at(b, h, t, c.tokens) + i));
  };
  each_head([&](size_t tokens_first, size_t heads_first) { moved[heads_first] = x[tokens_first]; });
  const std::vector<int32_t> positions = positions_for(c, 2, 100);
  const std::vector<float> y = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  expect_near(c, x, y, positions);
  c.heads_first = true;
  const std::vector<float> z = rotate(params_of(c, VEERY_DTYPE_F32), moved, positions, false);
  each_head(
      [&](size_t tokens_first, size_t heads_first) { EXPECT_EQ(y[tokens_first], z[heads_first]); });
  EXPECT_NE(rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false), y);
}

TEST(Rope, RotatesInPlace) {
  for (const int32_t dtype : {VEERY_DTYPE_F32, VEERY_DTYPE_BF16})
    for (uint64_t seed = 700; seed < 720; ++seed) {
      const RopeCase c = random_case(seed);
      const veery_rope_params p = params_of(c, dtype);
      const std::vector<int32_t> positions = positions_for(c, seed);
      const auto check = [&](auto x) {
        const auto expected = rotate(p, x, positions, false);
        ASSERT_EQ(veery_rope_forward(x.data(), x.size(), positions.data(), positions.size(),
                                     x.data(), x.size(), &p),
                  VEERY_OK);
        EXPECT_EQ(x, expected);
      };
      const std::vector<float> x = numbers(c.size(), seed);
      dtype == VEERY_DTYPE_F32 ? check(x) : check(to_bf16(x));
    }
}

// transformers: Qwen3-VL overwrites t only where h and w have sections, so pairs 61 and 62 are t.
TEST(Rope, PairsThatImropeLeavesAreTurnedByTime) {
  RopeCase c{.tokens = 3, .head_dim = 128, .rope_dim = 128, .mode = 40, .theta = 5e6};
  c.sections = {24, 20, 20, 0};
  std::vector<int> axes(64, 0);
  for (size_t i = 1; i < 3 * 20; i += 3) axes[i] = 1;
  for (size_t i = 2; i < 3 * 20; i += 3) axes[i] = 2;
  const std::vector<float> x = numbers(c.size(), 1);
  const std::vector<int32_t> positions = positions_for(c, 2, 5000);
  const std::vector<float> y = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  for (size_t token = 0; token < 3; ++token)
    for (size_t pair = 0; pair < 64; ++pair) {
      const auto axis = static_cast<size_t>(axes[pair]);
      const double angle = positions[axis * 3 + token] * std::pow(5e6, -2.0 * pair / 128);
      const double a = x[token * 128 + pair], b = x[token * 128 + pair + 64];
      EXPECT_NEAR(y[token * 128 + pair], a * std::cos(angle) - b * std::sin(angle), 1e-6) << pair;
    }
  // With pairs of its own, e takes those that are left, as in ggml.
  c.sections = {24, 20, 19, 1};
  EXPECT_EQ(test::rope_axis(c, 61), 3);
  expect_near(c, x, rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false), positions);
}

// In document 004 [n, 0, 0, 0] was to mean plain NeoX, which holds here for IMROPE too.
TEST(Rope, OneSectionIsNeox) {
  RopeCase c{.heads = 2, .tokens = 3, .head_dim = 32, .rope_dim = 24};
  const std::vector<float> x = numbers(c.size(), 1);
  const std::vector<int32_t> positions = positions_for(c, 2);
  const std::vector<float> plain = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  c.sections = {12, 0, 0, 0};
  for (const int mode : {8, 40}) {
    c.mode = mode;
    EXPECT_EQ(rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false), plain) << mode;
  }
}

TEST(Rope, EqualAxesAreNeox) {
  RopeCase c{.tokens = 4, .head_dim = 256, .rope_dim = 64, .theta = 1e7};
  const std::vector<float> x = numbers(c.size(), 1);
  std::vector<int32_t> positions;
  for (int axis = 0; axis < 4; ++axis)
    for (const int32_t p : {0, 7, 4000, 262143}) positions.push_back(p);
  const std::vector<float> plain = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  c.sections = {11, 11, 10, 0};
  for (const int mode : {8, 40}) {
    c.mode = mode;
    EXPECT_EQ(rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false), plain) << mode;
  }
}

TEST(Rope, PairingsOfAPartlyRotatedHeadDiffer) {
  RopeCase c{.tokens = 2, .head_dim = 8, .rope_dim = 4};
  const std::vector<float> x = numbers(c.size(), 1);
  const std::vector<int32_t> positions = positions_for(c, 2);
  const std::vector<float> near = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  c.head_half = true;
  const std::vector<float> far = rotate(params_of(c, VEERY_DTYPE_F32), x, positions, false);
  for (size_t token = 0; token < 2; ++token)
    for (size_t i = 0; i < 8; ++i) {
      const size_t at = token * 8 + i;
      EXPECT_EQ(near[at] == x[at], i >= 4) << i;
      EXPECT_EQ(far[at] == x[at], i % 4 >= 2) << i;
    }
}

// Positions are 32 bits: u32 from 2^31 on are negative, and the extreme ones have exact angles.
TEST(Rope, PositionsOfAnySignAndSize) {
  RopeCase c{.tokens = 6, .head_dim = 16, .rope_dim = 16};
  std::vector<int32_t> positions(24);
  const int32_t chosen[] = {0, -1, INT32_MAX, INT32_MIN, -123456789, 2000000011};
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = chosen[i % 6];
  const std::vector<float> x = numbers(c.size(), 3);
  veery_rope_params p = params_of(c, VEERY_DTYPE_F32);
  const std::vector<float> y = rotate(p, x, positions, false);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t pair = i % 8, token = i / 16, first = token * 16 + pair;
    const long double frequency = 1 / std::pow(10000.0, 2.0 * static_cast<double>(pair) / 16);
    const long double angle = frequency * positions[token];
    const auto cos = static_cast<double>(std::cos(angle)),
               sin = static_cast<double>(std::sin(angle));
    const double a = x[first], b = x[first + 8];
    const double expected = i % 16 < 8 ? a * cos - b * sin : a * sin + b * cos;
    EXPECT_NEAR(y[i], expected, 3e-7) << "position " << positions[token] << " pair " << pair;
  }
  p.position_dtype = VEERY_DTYPE_U32;
  EXPECT_EQ(rotate(p, x, positions, false), y);
  EXPECT_EQ(rotate(p, x, positions, true),
            rotate(params_of(c, VEERY_DTYPE_F32), x, positions, true));
}

TEST(Rope, YarnHasTheMagnitudeOfItsFactor) {
  RopeCase c{.tokens = 3, .head_dim = 64, .rope_dim = 64, .scaling = 3, .factor = 8};
  c.context = 4096;
  c.magnitude = 0.1 * std::log(8.0) + 1;
  veery_rope_params p = params_of(c, VEERY_DTYPE_F32);
  p.attention_factor = 0;
  const std::vector<float> x = numbers(c.size(), 1);
  const std::vector<int32_t> positions = positions_for(c, 2);
  expect_near(c, x, rotate(p, x, positions, false), positions);
}

TEST(Rope, DefaultsAreThoseOfTheHeader) {
  const veery_rope_params p = default_params();
  EXPECT_EQ(p.size, sizeof p);
  EXPECT_EQ(p.mode, VEERY_ROPE_NEOX);
  EXPECT_EQ(p.theta_base, 10000);
  EXPECT_EQ(p.layout, VEERY_ROPE_TOKENS_FIRST);
  EXPECT_EQ(p.dtype, VEERY_DTYPE_F32);
  EXPECT_EQ(p.scaling, VEERY_ROPE_SCALING_NONE);
  EXPECT_EQ(p.batch, 0U);
}

class RopeErrors : public ::testing::Test {
 protected:
  static constexpr size_t kCount = 2 * 2 * 3 * 8;
  RopeErrors() : input_(kCount), output_(kCount), positions_(4 * 2 * 3) {
    p_ = default_params();
    p_.batch = 2, p_.n_heads = 2, p_.seq_len = 3, p_.head_dim = 8, p_.rope_dim = 8;
  }
  void expect_error(const std::string& message, const std::function<void(veery_rope_params&)>& set,
                    veery_status status = VEERY_ERROR_INPUT) {
    veery_rope_params p = p_;
    set(p);
    for (const auto call : {veery_rope_forward, veery_rope_backward}) {
      EXPECT_EQ(call(input_.data(), input_.size(), positions_.data(), positions_.size(),
                     output_.data(), output_.size(), &p),
                status);
      EXPECT_EQ(veery_last_message(), message);
    }
  }
  // A call with other arguments, as forward.
  void expect_refused(const std::string& message, const void* input, size_t inputs,
                      const void* positions, size_t position_count, void* output, size_t outputs) {
    EXPECT_EQ(veery_rope_forward(input, inputs, positions, position_count, output, outputs, &p_),
              VEERY_ERROR_INPUT);
    EXPECT_EQ(veery_last_message(), message);
  }
  veery_rope_params p_;
  std::vector<float> input_, output_;
  std::vector<int32_t> positions_;
};

TEST_F(RopeErrors, OfSizes) {
  using P = veery_rope_params;
  expect_error("batch is 0, expected 1 or more", [](P& p) { p.batch = 0; });
  expect_error("n_heads is 0, expected 1 or more", [](P& p) { p.n_heads = 0; });
  expect_error("seq_len is 0, expected 1 or more", [](P& p) { p.seq_len = 0; });
  expect_error("head_dim is 0, expected 1 or more", [](P& p) { p.head_dim = 0; });
  expect_error("rope_dim is 0, expected 1 or more", [](P& p) { p.rope_dim = 0; });
  expect_error("head_dim is 9, expected an even number", [](P& p) { p.head_dim = 9; });
  expect_error("rope_dim is 3, expected an even number", [](P& p) { p.rope_dim = 3; });
  expect_error("rope_dim is 10, expected at most head_dim, 8", [](P& p) { p.rope_dim = 10; });
  expect_error("head_dim is 4294967294, expected at most 1048576",
               [](P& p) { p.head_dim = UINT32_MAX - 1; });
  expect_error(
      "batch * n_heads * seq_len * head_dim = 4294967295 * 4294967295 * 3 * 8, expected less than "
      "2^60 elements",
      [](P& p) { p.batch = p.n_heads = UINT32_MAX; });
}

TEST_F(RopeErrors, OfChoices) {
  using P = veery_rope_params;
  expect_error(
      "mode is 258, expected 0 (interleaved), 2 (NeoX), 8 (MROPE), 24 (vision) or 40 (IMROPE)",
      [](P& p) { p.mode = 258; });
  expect_error("pairing is -1, expected 0 (rope_dim / 2) or 1 (head_dim / 2)",
               [](P& p) { p.pairing = -1; });
  expect_error("layout is 2, expected 0 (tokens first) or 1 (heads first)",
               [](P& p) { p.layout = 2; });
  expect_error("dtype is 6, expected 7 (bf16) or 8 (f32)", [](P& p) { p.dtype = 6; });
  expect_error("position_dtype is 2, expected 3 (i32) or 4 (u32)",
               [](P& p) { p.position_dtype = 2; });
  expect_error("scaling is 4, expected 0 (none), 1 (linear), 2 (Llama 3) or 3 (YaRN)",
               [](P& p) { p.scaling = 4; });
  for (const int mode : {VEERY_ROPE_MROPE, VEERY_ROPE_IMROPE, VEERY_ROPE_VISION})
    expect_error("sections are all 0, expected 1 or more pairs in one of them",
                 [&](P& p) { p.mode = mode; });
  expect_error("scaling is 3, expected 0 (none) or 1 (linear) in vision mode",
               [](P& p) { p.mode = VEERY_ROPE_VISION, p.sections[0] = 4, p.scaling = 3; });
}

TEST_F(RopeErrors, OfFrequencies) {
  using P = veery_rope_params;
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  expect_error("theta_base is nan, expected a finite number above 0",
               [&](P& p) { p.theta_base = nan; });
  expect_error("theta_base is inf, expected a finite number above 0",
               [&](P& p) { p.theta_base = inf; });
  expect_error("theta_base is 0, expected a finite number above 0", [](P& p) { p.theta_base = 0; });
  expect_error("theta_base is -10, expected a finite number above 0",
               [](P& p) { p.theta_base = -10; });
  expect_error(
      "theta_base is 1e-16: the frequency of pair 2 is 100000000, expected at most 1048576 radians "
      "per position",
      [](P& p) { p.theta_base = 1e-16; });
  expect_error("attention_factor is inf, expected a finite number above 0",
               [&](P& p) { p.attention_factor = inf; });
  expect_error("attention_factor is -1, expected a finite number above 0",
               [](P& p) { p.attention_factor = -1; });
  expect_error("factor is 0, expected a finite number above 0",
               [](P& p) { p.scaling = VEERY_ROPE_SCALING_LINEAR, p.factor = 0; });
  expect_error("original_context is 0, expected a finite number above 0",
               [](P& p) { p.scaling = VEERY_ROPE_SCALING_YARN, p.factor = 4; });
  const auto yarn = [&](P& p) {
    p.scaling = VEERY_ROPE_SCALING_YARN, p.factor = 4, p.original_context = 4096;
  };
  expect_error("theta_base is 1, expected more than 1 for YaRN",
               [&](P& p) { yarn(p), p.theta_base = 1; });
  expect_error("beta_fast is nan, expected a finite number above 0",
               [&](P& p) { yarn(p), p.beta_fast = nan; });
  expect_error("beta_slow is 0, expected a finite number above 0",
               [&](P& p) { yarn(p), p.beta_slow = 0; });
  expect_error("beta_fast is 1, expected more than beta_slow, 1",
               [&](P& p) { yarn(p), p.beta_fast = 1; });
  const auto llama3 = [&](P& p) { yarn(p), p.scaling = VEERY_ROPE_SCALING_LLAMA3; };
  expect_error("low_freq_factor is 0, expected a finite number above 0",
               [&](P& p) { llama3(p), p.low_freq_factor = 0; });
  expect_error("high_freq_factor is 1, expected a finite number above low_freq_factor, 1",
               [&](P& p) { llama3(p), p.high_freq_factor = 1; });
  static constexpr float kFactors[] = {1, 2, 0, 4};
  expect_error("frequency_factors is null, expected 4 numbers",
               [](P& p) { p.frequency_factor_count = 4; });
  expect_error("frequency_factor_count is 3, expected rope_dim / 2 = 4",
               [](P& p) { p.frequency_factors = kFactors, p.frequency_factor_count = 3; });
  expect_error("frequency_factors[2] is 0, expected a finite number above 0",
               [](P& p) { p.frequency_factors = kFactors, p.frequency_factor_count = 4; });
}

TEST_F(RopeErrors, OfData) {
  const auto in = input_.data();
  const auto out = output_.data();
  const auto at = positions_.data();
  expect_refused(
      "input_count is 95, expected batch * n_heads * seq_len * head_dim = 2 * 2 * 3 * 8 = 96", in,
      95, at, 24, out, 96);
  expect_refused(
      "output_count is 97, expected batch * n_heads * seq_len * head_dim = 2 * 2 * 3 * 8 = 96", in,
      96, at, 24, out, 97);
  expect_refused("position_count is 6, expected 4 * batch * seq_len = 4 * 2 * 3 = 24", in, 96, at,
                 6, out, 96);
  expect_refused("input is null", nullptr, 96, at, 24, out, 96);
  expect_refused("positions is null", in, 96, nullptr, 24, out, 96);
  expect_refused("output is null", in, 96, at, 24, nullptr, 96);
  std::vector<float> both(2 * kCount);
  expect_refused("output overlaps input, expected the same memory or other memory", both.data(), 96,
                 at, 24, both.data() + 8, 96);
  expect_refused("output overlaps positions, expected other memory", in, 96, both.data() + 90, 24,
                 both.data(), 96);
  EXPECT_EQ(veery_rope_forward(in, 96, at, 24, out, 96, nullptr), VEERY_ERROR_INPUT);
  EXPECT_STREQ(veery_last_message(), "params is null");
  EXPECT_EQ(veery_rope_backward(in, 1, at, 24, out, 96, &p_), VEERY_ERROR_INPUT);
  EXPECT_EQ(std::string(veery_last_message()).find("grad_output_count is 1, "), 0U);
  EXPECT_EQ(veery_rope_backward(in, 96, at, 24, out, 1, &p_), VEERY_ERROR_INPUT);
  EXPECT_EQ(std::string(veery_last_message()).find("grad_input_count is 1, "), 0U);
  const void* odd = reinterpret_cast<const char*>(in) + 1;
  EXPECT_EQ(veery_rope_forward(odd, 96, at, 24, out, 96, &p_), VEERY_ERROR_INPUT);
  EXPECT_NE(std::string(veery_last_message()).find("a multiple of 4"), std::string::npos);
}

TEST_F(RopeErrors, OfTheStructure) {
  expect_error("veery_rope_params: its size is 3, expected " +
                   std::to_string(sizeof(veery_rope_params)) +
                   ": initialise the structure, or set size to sizeof",
               [](veery_rope_params& p) { p.size = 3; });
  EXPECT_EQ(veery_rope_params_init(nullptr, sizeof p_), VEERY_ERROR_INPUT);
}

// The threads of the parent are not in a child.
TEST(Rope, AChildProcessGetsAnError) {
  const RopeCase c{.heads = 8, .tokens = 100, .head_dim = 64, .rope_dim = 64};
  const veery_rope_params p = params_of(c, VEERY_DTYPE_F32);
  const std::vector<float> x = numbers(c.size(), 1);
  const std::vector<int32_t> positions = positions_for(c, 2);
  rotate(p, x, positions, false);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::vector<float> y(x.size());
    const veery_status status = veery_rope_forward(x.data(), x.size(), positions.data(),
                                                   positions.size(), y.data(), y.size(), &p);
    ::_exit(status == VEERY_ERROR_UNSUPPORTED ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace veery
