// Packs Q8_0 panels in three parts (split_panels.h), and decodes single rows of them.
#include "dtype/decode.h"
#include "kernels/cpu/panels/packed_codes.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/kernels.h"

namespace veery {
namespace {

using Split = SplitPanels;
using Bytes = uint8_t;

// These functions process four codes at once, one per byte.
constexpr uint32_t every_byte(uint32_t value) { return value * 0x01010101U; }
constexpr uint32_t bit_of(uint32_t codes, int from, int to) {
  return (codes >> from & every_byte(1)) << to;
}
// Returns the dword of codes whose lower two bits are stored in bits 2 s of dword h.
constexpr int dword_of(int h, int s) { return 2 * h + s / 2 + s % 2 * 4; }

// The 32 codes of a row in a unit: one dword for each bit of each part.
struct Parts {
  uint32_t upper[Split::kUpperBits] = {};
  uint32_t middle[Split::kMiddleBits] = {};
  uint32_t lower[Split::kLowerBits] = {};
};
Parts split(const uint32_t (&codes)[8]) {
  constexpr uint32_t kNibble = every_byte(15);
  Parts p;
  for (int j = 0; j < 4; ++j)
    p.upper[j] = (codes[j] >> 4 & kNibble) | (codes[j + 4] >> 4 & kNibble) << 4;
  for (int j = 0; j < 8; ++j) p.middle[0] |= bit_of(codes[j], 3, j);
  for (int h = 0; h < 2; ++h)
    for (int s = 0; s < 4; ++s) p.lower[h] |= (codes[dword_of(h, s)] & every_byte(3)) << (2 * s);
  for (int j = 0; j < 8; ++j) p.lower[2] |= bit_of(codes[j], 2, j);
  return p;
}
void join(const Parts& p, uint32_t (&codes)[8]) {
  for (int j = 0; j < 8; ++j)
    codes[j] = (p.upper[j % 4] >> (j / 4 * 4) & every_byte(15)) << 4 | bit_of(p.middle[0], j, 3) |
               bit_of(p.lower[2], j, 2);
  for (int h = 0; h < 2; ++h)
    for (int s = 0; s < 4; ++s) codes[dword_of(h, s)] |= p.lower[h] >> (2 * s) & every_byte(3);
}

// The addresses of the three parts of a unit.
template <typename Byte>
struct Unit {
  Byte* upper;
  Byte* middle;
  Byte* lower;

  Unit(Byte* weight, const Split& at, int64_t panel)
      : upper(weight + at.upper(panel)),
        middle(weight + at.middle(panel)),
        lower(weight + at.lower(panel)) {}
  void advance() {
    upper += Split::kUpper;
    middle += Split::kMiddle;
    lower += Split::kLower;
  }
};

void pack_lane(const BlockQ8_0& block, int lane, const Unit<Bytes>& unit) {
  uint32_t codes[8];
  std::memcpy(codes, block.qs, sizeof codes);
  for (uint32_t& four : codes) four ^= every_byte(0x80);
  const Parts p = split(codes);
  for (int i = 0; i < Split::kUpperBits; ++i)
    std::memcpy(unit.upper + (i * kLanes + lane) * 4, p.upper + i, 4);
  std::memcpy(unit.middle + lane * 4, p.middle, 4);
  for (int i = 0; i < Split::kLowerBits; ++i)
    std::memcpy(unit.lower + (i * kLanes + lane) * 4, p.lower + i, 4);
  std::memcpy(unit.upper + Split::kScale + 2 * lane, &block.d, 2);
}

}  // namespace

void pack_split_panels(const std::byte* source, int64_t rows, int64_t cols, std::byte* target,
                       int64_t first, int64_t last) {
  static constexpr BlockQ8_0 kZero = {};
  const Split at(rows, cols);
  const int64_t blocks = cols / 32;
  if (last == at.panels()) std::memset(target + at.history(), 0, Split::kHistoryBytes);
  for (int64_t p = first; p < last; ++p) {
    Unit<Bytes> unit(reinterpret_cast<Bytes*>(target), at, p);
    for (int64_t b = 0; b < blocks; ++b, unit.advance()) {
      for (int n = 0; n < kLanes; ++n) {
        const int64_t r = p * kLanes + n;
        const auto* row = reinterpret_cast<const BlockQ8_0*>(source) + r * blocks + b;
        pack_lane(r < rows ? *row : kZero, n, unit);
      }
    }
  }
}

void decode_split_row(const Operand& weight, int64_t row, float* out) {
  const Split at(weight.rows, weight.cols);
  Unit<const Bytes> unit(reinterpret_cast<const Bytes*>(weight.data), at, row / kLanes);
  const int lane = static_cast<int>(row % kLanes);
  for (int64_t k = 0; k < weight.cols; k += 32, unit.advance()) {
    Parts p;
    uint32_t codes[8];
    BlockQ8_0 block;
    take_lane(unit.upper, lane, Split::kUpperBits, reinterpret_cast<Bytes*>(p.upper));
    take_lane(unit.middle, lane, Split::kMiddleBits, reinterpret_cast<Bytes*>(p.middle));
    take_lane(unit.lower, lane, Split::kLowerBits, reinterpret_cast<Bytes*>(p.lower));
    join(p, codes);
    for (uint32_t& four : codes) four ^= every_byte(0x80);
    std::memcpy(&block.d, unit.upper + Split::kScale + 2 * lane, 2);
    std::memcpy(block.qs, codes, sizeof codes);
    decode_block(block, out + k);
  }
}

}  // namespace veery
