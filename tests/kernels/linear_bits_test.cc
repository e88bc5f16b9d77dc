// Products recorded once on x86-64. Every other machine must reproduce their bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string_view>

#include "kernels/linear_problem.h"

namespace veery {
namespace {

using test::Problem;

// std::normal_distribution is not used, because it depends on the library's logarithm.
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
    {"bf16", 0x0cae8436915d937e},
    {"f16", 0xaa4084c558bef984},
    {"f32", 0x35b2cf92ae13c3aa},
    {"iq1_m", 0xd0ee30b8fdf1d648},
    {"iq1_s", 0x15f9b540772aae95},
    {"iq2_s", 0x0f2d8bcc20b08169},
    {"iq2_xs", 0xc9c905385065dacc},
    {"iq2_xxs", 0xe8d3d07429a5a283},
    {"iq3_s", 0xff8cfe7be1d2bdc7},
    {"iq3_xxs", 0x68de5a0bf8d4eca2},
    {"iq4_nl", 0xb6b49c402d463c24},
    {"mxfp4", 0x5feca9f526d32ae8},
    {"nvfp4", 0xc7826918c74b78af},
    {"q4_0", 0x371f0d6cadce2321},
    {"q4_1", 0xb3ca7fe3dbc6cc7d},
    {"q5_0", 0x7016e9772b96d06a},
    {"q5_1", 0xb0c1aead1fde54f2},
    {"q8_0", 0x29f3bfafc14acc61},
    {"tq1_0", 0x171b39bbd60943b7},
    {"tq2_0", 0xaac96fc55cd3aab7},
    {"iq4_xs", 0xc8c02877c9a927c4},
    {"q2_K", 0x07c3a8cca2f7c56b},
    {"q3_K", 0xbe673fcf0f99b814},
    {"q4_K", 0xb0f44b6d13203df6},
    {"q5_K", 0x333f4c4586742ec6},
    {"q6_K", 0x0236f135cf64558d},
    {"q8_K", 0x6dddb388c393288f},
    {"mxfp8", 0xffda05ff4bfb17bd},
    {"fp8_32", 0x467640134a223151},
    {"fp8_128", 0x5d4416f96c2ece3c},
    {"affine2_g32_f16", 0x7895ae41dc58f4a5},
    {"affine2_g32_bf16", 0x06128e089842f9e4},
    {"affine2_g32_f32", 0x26b43b4f5ec08ace},
    {"affine2_g64_f16", 0xeec559ebabaaff10},
    {"affine2_g64_bf16", 0x744edcace0f3178f},
    {"affine2_g64_f32", 0xa2a191ad7737fd6b},
    {"affine2_g128_f16", 0xe080b8770013a93e},
    {"affine2_g128_bf16", 0xb07a45f0c9643744},
    {"affine2_g128_f32", 0x838fbed139e54af4},
    {"affine3_g32_f16", 0xf1c50585ce94480c},
    {"affine3_g32_bf16", 0x7aff2b0e75bd26e5},
    {"affine3_g32_f32", 0xb1b2833529715856},
    {"affine3_g64_f16", 0xc2b88ffb6b0e23db},
    {"affine3_g64_bf16", 0xb234fd71d700e770},
    {"affine3_g64_f32", 0x1d049c0adc2df8e4},
    {"affine3_g128_f16", 0x474e9e56c2b95a80},
    {"affine3_g128_bf16", 0x90399920526efe1e},
    {"affine3_g128_f32", 0x955527a988bee928},
    {"affine4_g32_f16", 0xbb002d9352a405e7},
    {"affine4_g32_bf16", 0xdb7b1ea6799f5953},
    {"affine4_g32_f32", 0x201fbad9412153a6},
    {"affine4_g64_f16", 0xe8a68c81608b6c73},
    {"affine4_g64_bf16", 0xed92bae0d9843b7f},
    {"affine4_g64_f32", 0x647db47f9aef048a},
    {"affine4_g128_f16", 0x665b8343f3173343},
    {"affine4_g128_bf16", 0x2f22bb6a2a5058ee},
    {"affine4_g128_f32", 0xb5c77b3393478f3a},
    {"affine5_g32_f16", 0x5a91f71494681e10},
    {"affine5_g32_bf16", 0x3f7351aa927ccb8e},
    {"affine5_g32_f32", 0xe595f8c561f5b2f2},
    {"affine5_g64_f16", 0xc223ef0e75a3ff6a},
    {"affine5_g64_bf16", 0xbdc5e920b8806852},
    {"affine5_g64_f32", 0xc3ed7a7b33bd86da},
    {"affine5_g128_f16", 0x7deb4b9a47b6649b},
    {"affine5_g128_bf16", 0xc1a2ef9b805f1b29},
    {"affine5_g128_f32", 0xaece83d7db5cfd5d},
    {"affine6_g32_f16", 0x7b26f0b2d71bcff2},
    {"affine6_g32_bf16", 0x7251fa3f7aa5a16a},
    {"affine6_g32_f32", 0xe560ef82dddccb43},
    {"affine6_g64_f16", 0x63cf978664faa1ac},
    {"affine6_g64_bf16", 0x44194bff5eb20f8d},
    {"affine6_g64_f32", 0x4fc82c2dcb2ba0eb},
    {"affine6_g128_f16", 0xa50dcc940e2c6b48},
    {"affine6_g128_bf16", 0xb549586aa69dcda7},
    {"affine6_g128_f32", 0x56034bf662b083d1},
    {"affine8_g32_f16", 0x32d08d29df3315e3},
    {"affine8_g32_bf16", 0x8bf672c60dd77495},
    {"affine8_g32_f32", 0xb09ff43240ec1ede},
    {"affine8_g64_f16", 0xd8eae874a9fb0f2d},
    {"affine8_g64_bf16", 0x7193ebdfb296944f},
    {"affine8_g64_f32", 0x623381e859140278},
    {"affine8_g128_f16", 0xc1a41f516ac4af75},
    {"affine8_g128_bf16", 0xa609e756dc2f011c},
    {"affine8_g128_f32", 0x336abfc925afe0e5},
};

TEST(LinearBits, AreThoseRecordedOnAnotherMachine) {
  EXPECT_EQ(kRecorded.size(), test::packed_types().size());
  for (const DType type : test::packed_types()) {
    Problem p({type}, {37}, info(type).block == 256 ? 512 : info(type).block == 128 ? 384 : 192, 3);
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
