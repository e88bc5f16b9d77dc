// Small models on a fake Metal driver, whose shaders the emulator runs: the bits of the CPU.
#include "kernels/metal/metal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <regex>

#include "engine/session.h"
#include "kernels/find_backend.h"
#include "kernels/metal/machine.h"
#include "support/fake_metal.h"
#include "support/families.h"
#include "support/metal_kernels.h"
#include "support/models.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::all_logits;
using test::Rows;
using test::SmallModel;
using test::some_ids;

LoadOptions options_for(std::shared_ptr<Backend> backend, int32_t chunk) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = chunk;
  if (backend) options.backends = {std::move(backend)};
  return options;
}
// Returns the message of the error that `Do` throws.
template <typename Do>
std::string message_of(const Do& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing failed";
}

class Metal : public ::testing::TestWithParam<DType> {};

TEST_P(Metal, LogitsHaveTheBitsOfTheCpuInAnyChunk) {
  if (test::kSanitized && GetParam() != DType::kQ4_0 && GetParam() != DType::kQ4_K) return;
  const SmallModel model(GetParam());
  const auto ids = some_ids(11);
  const Rows expected = all_logits(model.path(), options_for(nullptr, 64), ids);
  metal::FakeGpu gpu;
  for (const auto& [chunk, count] : {std::pair(1, 2), std::pair(3, 3), std::pair(64, 11)})
    EXPECT_EQ(all_logits(model.path(), options_for(metal::make_fake_backend(gpu), chunk),
                         std::span(ids).first(static_cast<size_t>(count))),
              Rows(expected.begin(), expected.begin() + count))
        << chunk;
  EXPECT_EQ(gpu.faults, "");
}

// More than eight rows use simdgroup matrices if weights are quantised. The last block of 32 rows
// has all, some or one of its groups of eight.
TEST_P(Metal, PromptsHaveTheBitsOfTheCpu) {
  if (test::kSanitized && GetParam() != DType::kQ4_0 && GetParam() != DType::kQ6_K) return;
  const SmallModel model(GetParam());
  const auto ids = some_ids(45);
  const Rows expected = all_logits(model.path(), options_for(nullptr, 64), ids);
  metal::FakeGpu gpu;
  for (const auto& [chunk, count] : {std::pair(16, 27), std::pair(64, 45), std::pair(64, 33)}) {
    if (test::kSanitized && count == 45) continue;
    EXPECT_EQ(all_logits(model.path(), options_for(metal::make_fake_backend(gpu), chunk),
                         std::span(ids).first(static_cast<size_t>(count))),
              Rows(expected.begin(), expected.begin() + count))
        << chunk;
    const bool coded = veery::info(GetParam()).quantized;
    EXPECT_EQ(std::ranges::count_if(
                  gpu.commands,
                  [](const std::string& name) { return name.starts_with("veery_gemm_simdgroup"); }),
              coded ? 5 : 0);
  }
  EXPECT_EQ(gpu.faults, "");
}

INSTANTIATE_TEST_SUITE_P(Weights, Metal,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_1,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ2_K,
                                           DType::kMXFP4, DType::kNVFP4, DType::kF32, DType::kF16,
                                           DType::kBF16),
                         [](const auto& of) { return std::string(veery::info(of.param).name); });

// Groups with few and with many pairs of row and expert.
TEST_P(Metal, ExpertsHaveTheBitsOfTheCpuInAnyChunk) {
  if (test::kSanitized || GetParam() == DType::kQ4_0 || GetParam() == DType::kQ5_1 ||
      GetParam() == DType::kQ5_K || GetParam() == DType::kQ2_K || GetParam() == DType::kF16)
    return;  // other types use the same code
  const SmallModel model(GetParam(), false, 256, 5);
  const auto ids = some_ids(28);
  const Rows expected = all_logits(model.path(), options_for(nullptr, 64), ids);
  metal::FakeGpu gpu;
  for (const auto& [chunk, count] : {std::pair(1, 2), std::pair(64, 28)})
    EXPECT_EQ(all_logits(model.path(), options_for(metal::make_fake_backend(gpu), chunk),
                         std::span(ids).first(static_cast<size_t>(count))),
              Rows(expected.begin(), expected.begin() + count))
        << chunk;
  EXPECT_EQ(gpu.faults, "");
}

// Positions in several KV blocks of 128, from the cache and within one run.
TEST(MetalAttention, HasTheBitsOfTheCpuOverSeveralBlocks) {
  const SmallModel model(DType::kF32);
  const auto ids = some_ids(140);
  metal::FakeGpu gpu;
  for (const DType cache : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (test::kSanitized && cache != DType::kBF16) continue;
    const auto last = [&](std::shared_ptr<Backend> backend) {
      LoadOptions options = options_for(std::move(backend), 138);
      options.cache_keys = options.cache_values = cache;
      Model of(model.path(), options);
      test::OneSequence session(of);
      session.feed(std::span(ids).first(138));
      Rows rows;
      rows.emplace_back(session.logits().begin(), session.logits().end());
      session.feed(std::span(ids).subspan(138, 1));
      rows.emplace_back(session.logits().begin(), session.logits().end());
      return rows;
    };
    EXPECT_EQ(last(metal::make_fake_backend(gpu)), last(nullptr)) << info(cache).name;
  }
  EXPECT_EQ(gpu.faults, "");
}

// Prefill and decode steps of several sequences in one run, and a sequence that reuses the slot of
// another.
TEST(MetalSequences, GiveTheBitsOfTheCpuTogether) {
  const SmallModel model(DType::kF32);
  metal::FakeGpu gpu;
  const auto logits = [&](std::shared_ptr<Backend> backend) {
    return test::logits_of_sequences(model.path(), options_for(std::move(backend), 64),
                                     some_ids(40));
  };
  EXPECT_EQ(logits(metal::make_fake_backend(gpu)), logits(nullptr));
  EXPECT_EQ(gpu.faults, "");
}

TEST(MetalDecode, ChoosesTheTokensOfTheCpu) {
  for (const DType type : {DType::kQ8_0, DType::kF32}) {
    const SmallModel model(type, /*tied=*/true);
    metal::FakeGpu gpu;
    const auto tokens = [&](std::shared_ptr<Backend> backend) {
      Model of(model.path(), options_for(std::move(backend), 64));
      test::OneSequence session(of);
      session.feed(some_ids(3));
      std::vector<int32_t> made(3);
      session.decode_greedy(7, made);
      return made;
    };
    EXPECT_EQ(tokens(metal::make_fake_backend(gpu)), tokens(nullptr)) << info(type).name;
    EXPECT_EQ(gpu.commands.back(), "veery_argmax");
  }
}

// f64 in integer arithmetic, against the processor's.
TEST(MetalFloat64, IsRoundedAsByTheProcessor) {
  Random random(5);
  const auto same = [](auto own, auto expected) {
    return std::isnan(expected) ? std::isnan(own)
                                : own == expected && std::signbit(own) == std::signbit(expected);
  };
  const double edges[] = {0.0,
                          -0.0,
                          1.0,
                          -1.0,
                          1 + 0x1p-52,
                          0x1p-1022,
                          0x1.fffffffffffffp1023,
                          INFINITY,
                          -INFINITY,
                          NAN,
                          0x1.fffffep127,
                          0x1.ffffffp127,
                          0x1p-149,
                          0x1.8p-149,
                          0x1p-150,
                          3.0,
                          0x1p-126,
                          0x1.fffffffp-127};
  const auto wide = [&] { return uint64_t{random.next()} << 32 | random.next(); };
  const auto any = [&] {
    const uint64_t bits = wide();
    switch (bits % 4) {
      case 0: return edges[bits / 4 % std::size(edges)];
      case 1: return std::bit_cast<double>(wide());
      case 2: return 1.0 + static_cast<double>(bits / 4 % 8) * 0x1p-52;  // close to each other
      default:
        return std::ldexp(static_cast<double>(wide()), -64 - static_cast<int>(bits / 4 % 90));
    }
  };
  const auto normal = [](double x) { return x == 0 || !(std::abs(x) < 0x1p-1022) ? x : 0 * x; };
  for (int i = 0; i < 400'000; ++i) {
    const double a = normal(any()), b = normal(any());
    ASSERT_TRUE(same(metal::soft_sum(a, b), normal(a + b))) << a << ' ' << b;
    ASSERT_TRUE(same(metal::soft_sum(a, -b), normal(a - b))) << a << ' ' << b;
    // Results just below the smallest normal number round up to it only in full precision.
    const auto expected = [&](double own, double result) {
      return std::abs(result) == 0x1p-1022 || same(own, normal(result));
    };
    ASSERT_TRUE(expected(metal::soft_product(a, b), a * b)) << a << ' ' << b;
    ASSERT_TRUE(expected(metal::soft_quotient(a, b), a / b)) << a << ' ' << b;
    ASSERT_TRUE(same(metal::soft_to(a), static_cast<float>(a))) << a;
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(wide()));
    ASSERT_TRUE(same(metal::soft_from(x), static_cast<double>(x))) << x;
  }
}

// The addend is much larger than the product, much smaller, or nearly its negative.
TEST(MetalFloat64, SumsOfAProductAreRoundedOnce) {
  Random random(8);
  const auto wide = [&] { return uint64_t{random.next()} << 32 | random.next(); };
  const double edges[] = {0.0, -0.0, 1.0, -1.0, 1 + 0x1p-52, INFINITY, -INFINITY, NAN, 0x1p-30};
  int cancelled = 0;
  for (int i = 0; i < 600'000; ++i) {
    const auto any = [&] {
      const uint64_t bits = wide();
      if (bits % 8 == 0) return edges[bits / 8 % std::size(edges)];
      const double few = static_cast<double>(1 + bits / 8 % 5);  // products have few bits
      const double own = static_cast<double>(static_cast<int64_t>(wide()) >> 11);
      return std::ldexp(bits % 8 < 3 ? few : own, static_cast<int>(bits >> 8 & 63U) - 80);
    };
    const double a = any(), b = any();
    double c = any();
    if (i % 3 == 0) c = -(a * b) * (i % 2 == 0 ? 1 : 1 + 0x1p-52 * static_cast<double>(i % 7));
    if (i % 3 == 1) c = std::ldexp(c, static_cast<int>(wide() % 260) - 130);
    const double own = metal::soft_fma(a, b, c), expected = std::fma(a, b, c);
    cancelled += expected != 0 && std::abs(expected) < std::abs(c) * 0x1p-40 ? 1 : 0;
    ASSERT_TRUE(std::isnan(expected)
                    ? std::isnan(own)
                    : own == expected && std::signbit(own) == std::signbit(expected))
        << a << ' ' << b << ' ' << c;
  }
  EXPECT_GT(cancelled, 10'000);
}

TEST(MetalFloat64, RootsProductsOfFloatsAndComparisonsAreThoseOfTheProcessor) {
  Random random(6);
  const auto wide = [&] { return uint64_t{random.next()} << 32 | random.next(); };
  const auto normal = [](double x) { return x == 0 || !(std::abs(x) < 0x1p-1022) ? x : 0 * x; };
  const double edges[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 4.0, 0x1p-1022, 2.0};
  const float floats[] = {0.0F, -0.0F, 1.5F, -INFINITY, NAN, 0x1p-149F, 0x1.fffffep127F, 3.0F};
  for (int i = 0; i < 200'000; ++i) {
    const auto any = [&] {
      const uint64_t bits = wide();
      return bits % 4 == 0 ? edges[bits / 4 % std::size(edges)]
                           : normal(std::bit_cast<double>(wide()));
    };
    const auto any_float = [&] {
      const uint64_t bits = wide();
      return bits % 4 == 0 ? floats[bits / 4 % std::size(floats)]
                           : std::bit_cast<float>(static_cast<uint32_t>(bits >> 8));
    };
    const double a = any(), b = any();
    ASSERT_EQ(metal::soft_less(a, b), a < b) << a << ' ' << b;
    const double root = metal::soft_root(a);
    ASSERT_TRUE(std::isnan(std::sqrt(a)) ? std::isnan(root) : root == std::sqrt(a)) << a;
    ASSERT_EQ(std::signbit(metal::soft_root(-0.0)), true);
    const float x = any_float(), y = any_float();
    const double product = metal::soft_product_of(x, y), expected = double{x} * double{y};
    ASSERT_TRUE(std::isnan(expected)
                    ? std::isnan(product)
                    : product == expected && std::signbit(product) == std::signbit(expected))
        << x << ' ' << y;
  }
}

// Errors are counted in units in the last place; subnormal results are 0.
TEST(MetalFloat64, FunctionsAreNearThoseOfTheLibrary) {
  Random random(7);
  const auto distance = [](double own, double expected) {
    const int64_t apart = std::bit_cast<int64_t>(own) - std::bit_cast<int64_t>(expected);
    return std::abs(static_cast<double>(apart));
  };
  double exp_most = 0, tanh_most = 0, log1p_most = 0, log_most = 0;
  int exp_other = 0;
  constexpr int kTimes = 200'000;
  for (int i = 0; i < kTimes; ++i) {
    const double part = (random.next() + random.next() * 0x1p-32) * 0x1p-32;  // from 0 to 1
    const double size = std::ldexp(1.0, -static_cast<int>(random.next() % 60));
    const double sign = random.next() % 2 == 0 ? 1 : -1;
    const double large = sign * part * 708, small = sign * part * size * 16;
    for (const double x : {large, small}) {
      const double own = metal::soft_exp(x);
      exp_most = std::max(exp_most, distance(own, std::exp(x)));
      exp_other += own != std::exp(x) ? 1 : 0;
      tanh_most = std::max(tanh_most, distance(metal::soft_tanh(x), std::tanh(x)));
    }
    const double x = part * size;
    log1p_most = std::max(log1p_most, distance(metal::soft_log1p(x), std::log1p(x)));
    const double above = (1 + part) / size;
    log_most = std::max(log_most, distance(metal::soft_log(above), std::log(above)));
  }
  EXPECT_LE(exp_most, 1);
  EXPECT_LT(exp_other, kTimes / 20);
  EXPECT_LE(tanh_most, 4);
  EXPECT_LE(log1p_most, 4);
  EXPECT_LE(log_most, 4);
  RecordProperty("exp_other", exp_other);
  RecordProperty("tanh", static_cast<int>(tanh_most));
  RecordProperty("log1p", static_cast<int>(log1p_most));
  RecordProperty("log", static_cast<int>(log_most));
  EXPECT_EQ(metal::soft_exp(-INFINITY), 0);
  EXPECT_EQ(metal::soft_exp(INFINITY), INFINITY);
  EXPECT_EQ(metal::soft_exp(711), INFINITY);
  EXPECT_EQ(metal::soft_exp(-746), 0);
  EXPECT_EQ(metal::soft_exp(0.0), 1);
  EXPECT_TRUE(std::isnan(metal::soft_exp(NAN)));
  EXPECT_EQ(metal::soft_tanh(INFINITY), 1);
  EXPECT_EQ(metal::soft_tanh(-INFINITY), -1);
  EXPECT_TRUE(std::isnan(metal::soft_tanh(NAN)));
  EXPECT_EQ(metal::soft_tanh(0.0), 0);
  EXPECT_EQ(metal::soft_log1p(0.0), 0);
  EXPECT_EQ(metal::soft_log(1.0), 0);
}

// The host side

// A table entry becomes some commands, with a barrier before each. All objects are released.
TEST(MetalHost, APlanIsOneBufferOfCommands) {
  const SmallModel model(DType::kQ8_0);
  metal::FakeGpu gpu;
  {
    LoadOptions options = options_for(metal::make_fake_backend(gpu), 3);
    EXPECT_EQ(gpu.functions, std::vector<std::string>{"veery_elementwise"});  // for the profile
    const int measured = gpu.runs;
    EXPECT_EQ(options.backends[0]->device().description(), "Fake (metal, 1.0 GiB, 33 GB/s)");
    all_logits(model.path(), options, some_ids(6));
    EXPECT_EQ(gpu.runs, measured + 2);
    EXPECT_EQ(gpu.commands[0], "veery_rope_angles");
    EXPECT_EQ(gpu.commands[1], "veery_embed");
    EXPECT_EQ(std::ranges::count(gpu.commands, "veery_quantize_x"), 5);
    EXPECT_EQ(std::ranges::count(gpu.commands, "veery_gemm_direct_q8"), 4);
    EXPECT_EQ(std::ranges::count(gpu.commands, "veery_gemm_direct_gated_q8"), 1);
    EXPECT_EQ(std::ranges::count(gpu.commands, "veery_attend_split_bf16_1"), 1);
  }
  EXPECT_EQ(gpu.faults, "");
  EXPECT_EQ(gpu.buffers, 0);
  EXPECT_EQ(gpu.encoded, 0);
  EXPECT_EQ(gpu.used, 0U);
}

TEST(MetalHost, FaultsAreErrors) {
  const SmallModel model(DType::kQ8_0);
  const auto message = [&](const auto& change) {
    metal::FakeGpu gpu;
    change(gpu);
    const std::string text = message_of([&] {
      all_logits(model.path(), options_for(metal::make_fake_backend(gpu), 3), some_ids(6));
    });
    EXPECT_EQ(gpu.used, 0U) << text;
    EXPECT_EQ(gpu.encoded, 0) << text;
    return text;
  };
  EXPECT_EQ(message([](metal::FakeGpu& gpu) { gpu.fail_run = 7; }),
            "metal: a run: the GPU was reset");
  EXPECT_EQ(message([](metal::FakeGpu& gpu) { gpu.width = 64; }),
            "metal: Fake has simdgroups of 64 threads, expected 32");
  const std::string small = message([](metal::FakeGpu& gpu) { gpu.limits.block_memory = 1024; });
  EXPECT_NE(small.find("bytes per threadgroup, Fake has"), std::string::npos) << small;
  const std::string full = message([](metal::FakeGpu& gpu) { gpu.limits.memory = 400'000; });
  EXPECT_NE(full.find("metal: cannot allocate"), std::string::npos) << full;
  const std::string piece = message([](metal::FakeGpu& gpu) { gpu.limits.buffer = 40'000; });
  EXPECT_NE(piece.find("the largest buffer has 40000 bytes"), std::string::npos) << piece;
}

TEST(MetalHost, TextThatIncludesOtherFilesIsRefused) {
  metal::FakeGpu gpu;
  EXPECT_EQ(metal::kShaders.find("#include \""), std::string_view::npos);
  EXPECT_THROW(metal::make_machine(metal::make_fake(gpu), "#include \"kernels/gpu/x.h\"", 1),
               Error);
}

// `thread` is a Metal keyword that the shim cannot emulate; tests/support/metal_shim defines the
// others.
TEST(MetalText, HasThreadForMemoryOnly) {
  const std::regex comment("//[^\n]*"), word("\\bthread\\b(?!\\()");
  const std::string text = std::regex_replace(std::string(metal::kShaders), comment, std::string());
  const std::sregex_iterator found(text.begin(), text.end(), word);
  ASSERT_NE(found, std::sregex_iterator());
  EXPECT_EQ(std::distance(found, std::sregex_iterator()), 1);
  EXPECT_EQ(text.substr(static_cast<size_t>(found->position()) - 21, 27),
            "#define VEERY_THREAD thread");
}

TEST(MetalRefusals, SayThatMetalIsUnavailable) {
#if !defined(__APPLE__)
  std::string why;
  EXPECT_EQ(message_of([&] { find_backends("metal", why); }),
            "device metal: Metal is available on macOS only");
#endif
  EXPECT_TRUE(is_device("metal"));
  EXPECT_FALSE(is_device("metal:1"));
}

}  // namespace
}  // namespace veery
