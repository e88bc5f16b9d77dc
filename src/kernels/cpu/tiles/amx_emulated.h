// amx_emulated.h: AMX tiles emulated in plain C++, so that tile kernels can be tested on any
// machine.
#pragma once
#include <cstring>

#include "base/error.h"
#include "dtype/decode.h"
#include "kernels/cpu/tiles/amx.h"

namespace veery {

/// Follows the instruction descriptions (Intel SDM volume 2). A use that would raise an exception
/// fails a VEERY_CHECK. Products of two bf16 are exact in f32 unless they underflow, so multiply
/// and add gives the result of the instruction's fma.
class EmulatedTiles {
 public:
  void configure(const TileConfig& config) {
    VEERY_CHECK(config.palette == 1 && config.start_row == 0);
    for (int i = 0; i < 16; ++i) {
      VEERY_CHECK(config.rows[i] <= kTileRows && config.row_bytes[i] <= kTileRowBytes);
      VEERY_CHECK(i < kTiles || (config.rows[i] == 0 && config.row_bytes[i] == 0));
      VEERY_CHECK((config.rows[i] == 0) == (config.row_bytes[i] == 0));
    }
    config_ = config;
    std::memset(tiles_, 0, sizeof tiles_);
  }
  void release() { config_ = TileConfig{}; }

  template <int kTile>
  void zero() {
    check(kTile);
    std::memset(tiles_[kTile], 0, kTileBytes);
  }
  template <int kTile>
  void load(const void* p) {
    load_rows<kTile>(p, kTileRowBytes);
  }
  template <int kTile, int kRowBytes>
  void load_bytes(const void* p) {
    VEERY_CHECK(config_.rows[kTile] * kRowBytes <= kByteTile);
    load_rows<kTile>(p, kRowBytes);
  }
  template <int kTile>
  void store(void* p) {
    check(kTile);
    for (int r = 0; r < config_.rows[kTile]; ++r)
      std::memcpy(static_cast<std::byte*>(p) + r * kTileRowBytes, tiles_[kTile][r],
                  config_.row_bytes[kTile]);
  }
  template <int kC, int kA, int kB>
  void dot() {
    check_product<kC, kA, kB>();
    add_products(tiles_[kC], tiles_[kA], tiles_[kB], config_.rows[kC], config_.row_bytes[kC] / 4,
                 config_.rows[kB]);
  }
  template <int kC, int kA, int kB, bool kUnsigned>
  void dot_bytes() {
    check_product<kC, kA, kB>();
    for (int m = 0; m < config_.rows[kC]; ++m) {
      auto* out = reinterpret_cast<int32_t*>(tiles_[kC][m]);
      for (int p = 0; p < config_.row_bytes[kA]; ++p)
        for (int n = 0; n < config_.row_bytes[kC] / 4; ++n) {
          const auto right = static_cast<uint8_t>(tiles_[kB][p / 4][4 * n + p % 4]);
          out[n] += static_cast<int8_t>(tiles_[kA][m][p]) *
                    (kUnsigned ? int{right} : int{static_cast<int8_t>(right)});
        }
    }
  }

 private:
  using Tile = std::byte[kTileRows][kTileRowBytes];

  template <int kTile>
  void load_rows(const void* p, int stride) {
    zero<kTile>();
    for (int r = 0; r < config_.rows[kTile]; ++r)
      std::memcpy(tiles_[kTile][r], static_cast<const std::byte*>(p) + r * stride,
                  config_.row_bytes[kTile]);
  }
  template <int kC, int kA, int kB>
  void check_product() const {
    static_assert(kC != kA && kC != kB && kA != kB);
    check(kC), check(kA), check(kB);
    VEERY_CHECK(config_.row_bytes[kA] / 4 == config_.rows[kB] &&
                config_.rows[kA] == config_.rows[kC] &&
                config_.row_bytes[kB] == config_.row_bytes[kC] && config_.row_bytes[kC] % 4 == 0 &&
                config_.row_bytes[kA] % 4 == 0);
  }

  void check(int tile) const { VEERY_CHECK(config_.rows[tile] > 0); }

  // Subnormal operands and results are flushed to 0.
  static float flush(float x) { return x > -0x1p-126F && x < 0x1p-126F ? 0 : x; }
  static void unpack(const std::byte* row, float* out) {
    for (int i = 0; i < kTileRowBytes / 2; ++i) {
      uint16_t half;
      std::memcpy(&half, row + 2 * i, 2);
      out[i] = flush(bf16_to_f32(half));
    }
  }
  // TDPBF16PS: sums even and odd elements separately, then adds both sums to the accumulator.
  static void add_products(Tile& c, const Tile& a, const Tile& b, int rows, int cols, int pairs) {
    float right[kTileRows][kTileRowBytes / 2];
    for (int p = 0; p < pairs; ++p) unpack(b[p], right[p]);
    for (int m = 0; m < rows; ++m) {
      float left[kTileRowBytes / 2];
      unpack(a[m], left);
      float sum[kTileRowBytes / 2] = {};
      for (int p = 0; p < pairs; ++p)
        for (int i = 0; i < 2 * cols; ++i) sum[i] += left[2 * p + i % 2] * right[p][i];
      float* out = reinterpret_cast<float*>(c[m]);
      for (int n = 0; n < cols; ++n)
        out[n] = flush(out[n] + flush(flush(sum[2 * n]) + flush(sum[2 * n + 1])));
    }
  }

  TileConfig config_{};  // no tile has rows: not configured
  alignas(64) Tile tiles_[kTiles];
};

}  // namespace veery
