// Products recorded once, on x86-64: every other machine has to give the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string_view>

#include "kernels/linear_problem.h"

namespace veery {
namespace {

using testing::Problem;

// No library's random numbers of normal distribution: they need logarithms.
float activation(size_t i) {
  const auto n = static_cast<int>(i * 2654435761U >> 7U & 0xfff) - 2048;
  return static_cast<float>(n) / (i / 40 % 3 == 0 ? 256.0F : 4096.0F);
}

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t code = 0xcbf29ce484222325;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (int byte = 0; byte < 4; ++byte) code = (code ^ (bits >> 8 * byte & 0xff)) * 0x100000001b3;
  }
  return code;
}

const std::map<std::string_view, uint64_t> kRecorded = {
    {"bf16", 0x452616fc93a057ec},   {"f16", 0xaa4084c558bef984},
    {"f32", 0x35b2cf92ae13c3aa},    {"iq1_m", 0xd0ee30b8fdf1d648},
    {"iq1_s", 0x15f9b540772aae95},  {"iq2_s", 0x0f2d8bcc20b08169},
    {"iq2_xs", 0xc9c905385065dacc}, {"iq2_xxs", 0xe8d3d07429a5a283},
    {"iq3_s", 0xff8cfe7be1d2bdc7},  {"iq3_xxs", 0x68de5a0bf8d4eca2},
    {"iq4_nl", 0xb6b49c402d463c24}, {"mxfp4", 0x5feca9f526d32ae8},
    {"nvfp4", 0xc7826918c74b78af},  {"q4_0", 0x371f0d6cadce2321},
    {"q4_1", 0xb3ca7fe3dbc6cc7d},   {"q5_0", 0x7016e9772b96d06a},
    {"q5_1", 0xb0c1aead1fde54f2},   {"q8_0", 0x29f3bfafc14acc61},
    {"tq1_0", 0x171b39bbd60943b7},  {"tq2_0", 0xaac96fc55cd3aab7},
    {"iq4_xs", 0xc8c02877c9a927c4}, {"q2_K", 0x07c3a8cca2f7c56b},
    {"q3_K", 0xbe673fcf0f99b814},   {"q4_K", 0xb0f44b6d13203df6},
    {"q5_K", 0x333f4c4586742ec6},   {"q6_K", 0x0236f135cf64558d},
    {"q8_K", 0x6dddb388c393288f},
};

TEST(LinearBits, AreThoseRecordedOnAnotherMachine) {
  EXPECT_EQ(kRecorded.size(), testing::packed_types().size());
  for (const DType type : testing::packed_types()) {
    Problem p({type}, {37}, info(type).block == 256 ? 512 : 192, 3);
    p.set_activations(activation);
    const auto recorded = kRecorded.find(info(type).name);
    const uint64_t wanted = recorded == kRecorded.end() ? 0 : recorded->second;
    for (const Target target : supported_targets())
      EXPECT_EQ(fnv1a(p.run(target, 1)), wanted)
          << fmt::format("{{\"{}\", {:#018x}}},", info(type).name, fnv1a(p.run(target, 1)))
          << " on " << name(target);
  }
}

}  // namespace
}  // namespace veery
