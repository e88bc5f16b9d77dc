#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/tiles/amx_emulated.h"

namespace veery {
namespace {

struct alignas(64) Block {
  std::byte bytes[kTileBytes] = {};
};

TileConfig config_of(int rows, int pairs, int cols) {
  TileConfig config;
  const auto set = [&](int tile, int tile_rows, int row_bytes) {
    config.rows[tile] = static_cast<uint8_t>(tile_rows);
    config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  set(0, rows, cols * 4);
  set(1, rows, pairs * 4);
  set(2, pairs, cols * 4);
  return config;
}

void put(Block& block, int row, int i, float value) {
  const uint16_t half = f32_to_bf16(value);
  std::memcpy(block.bytes + row * kTileRowBytes + 2 * i, &half, 2);
}
float get(const Block& block, int row, int i) {
  float value;
  std::memcpy(&value, block.bytes + row * kTileRowBytes + 4 * i, 4);
  return value;
}

template <class Tiles>
Block product(Tiles tiles, const TileConfig& config, const Block& a, const Block& b, int times) {
  Block c;
  tiles.configure(config);
  tiles.template zero<0>();
  tiles.template load<1>(a.bytes);
  tiles.template load<2>(b.bytes);
  for (int i = 0; i < times; ++i) tiles.template dot<0, 1, 2>();
  tiles.template store<0>(c.bytes);
  tiles.release();
  return c;
}

TEST(EmulatedTiles, MultiplyIntegersOfEveryShapeExactly) {
  std::mt19937 rng(1);
  for (const int rows : {1, 7, 16})
    for (const int pairs : {1, 5, 16})
      for (const int cols : {1, 9, 16}) {
        Block a;
        Block b;
        std::vector<int> left(16 * 32);
        std::vector<int> right(32 * 16);
        for (int m = 0; m < 16; ++m)
          for (int k = 0; k < 32; ++k) {
            left[m * 32 + k] = static_cast<int>(rng() % 257) - 128;
            right[k * 16 + m] = (static_cast<int>(rng() % 257) - 128) * 8;
            put(a, m, k, static_cast<float>(left[m * 32 + k]));
            put(b, k / 2, 2 * m + k % 2, static_cast<float>(right[k * 16 + m]));
          }
        const Block c = product(EmulatedTiles(), config_of(rows, pairs, cols), a, b, 3);
        for (int m = 0; m < 16; ++m)
          for (int n = 0; n < 16; ++n) {
            int sum = 0;
            for (int k = 0; k < 2 * pairs; ++k) sum += 3 * left[m * 32 + k] * right[k * 16 + n];
            ASSERT_EQ(get(c, m, n), m < rows && n < cols ? static_cast<float>(sum) : 0);
          }
      }
}

TEST(EmulatedTiles, RoundToNearestEvenAndFlushDenormals) {
  Block a;
  Block b;
  put(a, 0, 0, 1), put(a, 0, 1, 1);
  put(b, 0, 0, 16777216), put(b, 0, 1, 1);              // 2^24 + 1: halfway, to even
  put(b, 0, 2, 16777216), put(b, 0, 3, 3);              // 2^24 + 3: halfway, to even
  put(b, 0, 4, 0x1p-127F), put(b, 0, 5, 0);             // a subnormal operand is flushed
  put(b, 0, 6, 0x1.8p-126F), put(b, 0, 7, -0x1p-126F);  // a subnormal result is flushed
  put(b, 0, 8, 1), put(b, 0, 9, -1);
  const Block c = product(EmulatedTiles(), full_tiles(), a, b, 1);
  EXPECT_EQ(get(c, 0, 0), 16777216.0F);
  EXPECT_EQ(get(c, 0, 1), 16777220.0F);
  EXPECT_EQ(get(c, 0, 2), 0.0F);
  EXPECT_EQ(get(c, 0, 3), 0.0F);
  EXPECT_EQ(get(c, 0, 4), 0.0F);
  EXPECT_FALSE(std::signbit(get(c, 0, 4)));
}

TEST(EmulatedTiles, RefuseIllegalInstructions) {
  Block block;
  EmulatedTiles tiles;
  EXPECT_ANY_THROW(tiles.load<0>(block.bytes));
  EXPECT_ANY_THROW(tiles.zero<3>());
  TileConfig config = full_tiles();
  config.palette = 2;
  EXPECT_ANY_THROW(tiles.configure(config));
  config = full_tiles();
  config.rows[2] = 17;
  EXPECT_ANY_THROW(tiles.configure(config));
  config = full_tiles();
  config.rows[2] = 8;  // fewer pairs than kA has
  tiles.configure(config);
  EXPECT_ANY_THROW((tiles.dot<0, 1, 2>()));
  tiles.configure(full_tiles());
  EXPECT_NO_THROW((tiles.dot<0, 1, 2>()));
  tiles.release();
  EXPECT_ANY_THROW((tiles.dot<0, 1, 2>()));
}

TEST(AmxTiles, EqualTheEmulatedTiles) {
  if (!amx_usable()) GTEST_SKIP() << "the real tiles are not tested: " << amx_refusal();
#if defined(__x86_64__)
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (const auto& config : {full_tiles(), config_of(7, 5, 9)}) {
    Block a;
    Block b;
    for (int r = 0; r < 16; ++r)
      for (int i = 0; i < 32; ++i) put(a, r, i, normal(rng)), put(b, r, i, normal(rng));
    const Block want = product(EmulatedTiles(), config, a, b, 3);
    const Block got = product(AmxTiles(), config, a, b, 3);
    EXPECT_EQ(std::memcmp(want.bytes, got.bytes, kTileBytes), 0);
  }
#endif
}

template <bool kUnsigned, class Tiles>
Block byte_product(Tiles tiles, int rows, const Block& a, const Block& b) {
  Block c;
  const TileConfig config = byte_tiles(rows);
  tiles.configure(config);
  tiles.template load_bytes<0, kTileRowBytes>(b.bytes);
  tiles.template load_bytes<2, kByteRowBytes>(a.bytes);
  tiles.template zero<4>();
  for (int i = 0; i < 2; ++i) tiles.template dot_bytes<4, 2, 0, kUnsigned>();
  tiles.template store<4>(c.bytes);
  tiles.release();
  return c;
}

// Returns twice the product of row m of `a` with lane n of panel `b`, over 32 columns.
template <bool kUnsigned>
int32_t byte_sum(const Block& a, const Block& b, int m, int n) {
  int32_t sum = 0;
  for (int k = 0; k < 32; ++k) {
    const std::byte right = b.bytes[k / 4 * kTileRowBytes + 4 * n + k % 4];
    sum += 2 * static_cast<int8_t>(a.bytes[m * kByteRowBytes + k]) *
           (kUnsigned ? static_cast<uint8_t>(right) : static_cast<int8_t>(right));
  }
  return sum;
}

template <bool kUnsigned>
void expect_byte_products(int rows) {
  std::mt19937 rng(3);
  Block a;
  Block b;
  for (std::byte& byte : a.bytes) byte = static_cast<std::byte>(rng());
  for (std::byte& byte : b.bytes) byte = static_cast<std::byte>(rng());
  const Block emulated = byte_product<kUnsigned>(EmulatedTiles(), rows, a, b);
  for (int m = 0; m < kTileRows; ++m)
    for (int n = 0; n < kTileRows; ++n) {
      int32_t sum;
      std::memcpy(&sum, emulated.bytes + m * kTileRowBytes + 4 * n, 4);
      ASSERT_EQ(sum, m < rows ? byte_sum<kUnsigned>(a, b, m, n) : 0) << m << ' ' << n;
    }
#if defined(__x86_64__)
  if (!amx_usable()) return;
  const Block real = byte_product<kUnsigned>(AmxTiles(), rows, a, b);
  EXPECT_EQ(std::memcmp(emulated.bytes, real.bytes, kTileBytes), 0);
#endif
}

TEST(AmxTiles, MultiplyBytesWithSignAndWithout) {
  for (const int rows : {8, 16}) {
    expect_byte_products<false>(rows);
    expect_byte_products<true>(rows);
  }
}

}  // namespace
}  // namespace veery
