// amx.h: wrappers of AMX tile instructions, and detection of AMX.
#pragma once
#include <cstddef>
#include <cstdint>

namespace veery {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;
inline constexpr int kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int kTiles = 8;

/// int8 tiles hold 32 columns of 16 token rows (16 tile rows of 32 bytes) or of the 16 rows of a
/// panel (8 tile rows of 64 bytes).
inline constexpr int kByteRowBytes = 32;
inline constexpr int kByteTile = kTileRows * kByteRowBytes;

/// The memory operand of LDTILECFG (Intel SDM volume 1, 18.2). Palette 1 has 8 tiles of up to 16
/// rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Returns the configuration with all tiles in full size, for bf16.
constexpr TileConfig full_tiles() {
  TileConfig config;
  for (int i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = kTileRowBytes;
    config.rows[i] = kTileRows;
  }
  return config;
}

/// Returns the configuration for int8: tiles 0 and 1 hold panels, 2 and 3 `rows` token rows, 4 to 7
/// sums.
constexpr TileConfig byte_tiles(int rows) {
  TileConfig config;
  for (int i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = i / 2 == 1 ? kByteRowBytes : kTileRowBytes;
    config.rows[i] = static_cast<uint8_t>(i < 2 ? kByteRowBytes / 4 : rows);
  }
  return config;
}

#if defined(__x86_64__)

/// The tiles of the processor. EmulatedTiles (amx_emulated.h) has the same interface. The rows of a
/// tile are contiguous in memory: 1 KiB for load() and store(), kByteTile bytes for load_bytes().
///
/// Inline assembly, because GCC 12's intrinsics declare only 8 bytes of the configuration and no
/// tile memory as operands, so that the optimiser drops or moves stores that they depend on. Here
/// each instruction declares all memory that it reads or writes, and clobbers "memory".
class AmxTiles {
 public:
  void configure(const TileConfig& config) const {
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  void release() const { asm volatile("tilerelease" : : : "memory"); }

  template <int kTile>
  void zero() const {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile) : "memory");
  }
  template <int kTile>
  void load(const void* p) const {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(p), "r"(int64_t{kTileRowBytes}), "i"(kTile),
                   "m"(*static_cast<const std::byte(*)[kTileBytes]>(p))
                 : "memory");
  }
  template <int kTile, int kRowBytes>
  void load_bytes(const void* p) const {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(p), "r"(int64_t{kRowBytes}), "i"(kTile),
                   "m"(*static_cast<const std::byte(*)[kByteTile]>(p))
                 : "memory");
  }
  template <int kTile>
  void store(void* p) const {
    asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
                 : "=m"(*static_cast<std::byte(*)[kTileBytes]>(p))
                 : "r"(p), "r"(int64_t{kTileRowBytes}), "i"(kTile)
                 : "memory");
  }
  /// kC[m][n] += sum over pairs p of kA[m][p][0] kB[p][n][0] + kA[m][p][1] kB[p][n][1], bf16 to
  /// f32.
  template <int kC, int kA, int kB>
  void dot() const {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB) : "memory");
  }
  /// The same for groups of four bytes, accumulated in int32. kA is signed; kUnsigned applies to
  /// kB.
  template <int kC, int kA, int kB, bool kUnsigned>
  void dot_bytes() const {
    if constexpr (kUnsigned)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB) : "memory");
    else
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB) : "memory");
  }
};

#endif

/// Returns whether AMX with bf16 and int8 can be used: the processor has it, the system permits it,
/// and a self-test passes. The first call requests permission from the system.
bool amx_usable();

/// Returns the reason why AMX cannot be used, as a message; empty if it can.
const char* amx_refusal();

}  // namespace veery
