// Products whose warps wait for each other, on the emulator, with warps of very different speed.
#define VEERY_GPU_CODE
#define VEERY_CUDA_CODE
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/gpu/dialect/emulator.h"
#include "kernels/gpu/kernels/linear/gemv.h"
#include "support/gpu_machine.h"
#include "support/sanitized.h"

namespace veery::gpu {
namespace {

constexpr int kMaxShared = 227 << 10;

// One block has all panels: of a weight, or of a gate and its up weight.
struct Problem {
  int panels, cols;
  bool gated = false;

  int rows() const { return 16 * panels; }
};

// Returns a packed weight whose scales are small finite numbers.
template <WeightFormat kFormat>
std::vector<uint8_t> make_weight(const Problem& problem, int seed) {
  constexpr UnitLayout kLayout = unit_layout(kFormat);
  static_assert(weight_format_info(kFormat).wide);
  const int units = problem.panels * problem.cols / weight_format_info(kFormat).block;
  std::vector<uint8_t> bytes(static_cast<size_t>(units) * kLayout.bytes + 256);
  std::minstd_rand random(static_cast<unsigned>(seed));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
  for (int u = 0; u < units; ++u)
    for (int n = 0; n < 16; ++n) {
      const float scale = static_cast<float>(1 + n) / 4096;
      std::memcpy(bytes.data() + static_cast<size_t>(u) * kLayout.bytes + kLayout.d + 4 * n, &scale,
                  4);
    }
  return bytes;
}

// Returns the product by gemv(), while some warps are held.
template <WeightFormat kFormat, int kTerms>
std::vector<float> product(const Problem& problem, uint32_t held) {
  const std::vector<uint8_t> weights[] = {make_weight<kFormat>(problem, 1),
                                          make_weight<kFormat>(problem, 2)};
  std::vector<float> x(static_cast<size_t>(problem.cols)), out(static_cast<size_t>(problem.rows()));
  std::minstd_rand random(3);
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000 - 1;
  GemmParams params{};
  params.x = x.data();
  params.act.cols = problem.cols;
  params.rows = 1;
  params.gated = problem.gated ? 1 : 0;
  params.weights = 1 + params.gated;
  const auto aligned = [](const std::vector<uint8_t>& bytes) {
    return bytes.data() + (-reinterpret_cast<uintptr_t>(bytes.data()) & 15);
  };
  for (int i = 0; i < params.weights; ++i)
    params.weight[i] = {
        aligned(weights[i]),
        int64_t{problem.cols} / weight_format_info(kFormat).block * unit_layout(kFormat).bytes,
        problem.rows(), problem.cols, kFormat};
  params.scale = 1;
  params.out = {out.data(), problem.rows(), 1, problem.rows()};
  params.max_smem = kMaxShared;
  const HeldWarps holds(held);
  emulated::run([](const void* p) { gemv<kFormat, kTerms>(*static_cast<const GemmParams*>(p)); },
                &params, {.threads = GemvSmem::kThreads, .shared = kMaxShared});
  return out;
}

// With 8 slots, warps 0, 4 and 8 have all tiles of slots 0 and 4, and so on; with fewer slots other
// warps have them. A panel has 16 tiles, so that tickets reuse their mbarriers.
TEST(GpuSlowWarps, OfGemvAreMetBeforeANarrowGroup) {
  for (const int panels : {13, 21, 22}) {
    if (test::kSanitized && panels != 21) continue;
    const Problem problem{panels, 4096};
    const std::vector<float> expected = product<kK8, 1>(problem, 0);
    for (const uint32_t held : {0x111U, 0x222U})
      EXPECT_EQ((product<kK8, 1>(problem, held)), expected) << panels << " " << held;
  }
}

// A panel has more tiles than a slot has mbarriers.
TEST(GpuSlowWarps, OfGemvPublishTheGateOfTheirPanel) {
  for (const int panels : {4, 7}) {
    if (test::kSanitized && panels != 4) continue;
    const Problem problem{panels, 256 * 20, true};
    const std::vector<float> expected = product<kK8, 1>(problem, 0);
    for (const uint32_t held : {0x111U, 0x222U})
      EXPECT_EQ((product<kK8, 1>(problem, held)), expected) << panels << " " << held;
  }
}

}  // namespace
}  // namespace veery::gpu
