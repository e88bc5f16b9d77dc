// amx.h: the tile registers of AMX and whether this machine lets us use them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace veery {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;
inline constexpr int kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int kTiles = 8;

/// Tiles of bytes, 32 columns of each row: 16 rows of 32 bytes, and the same of 16 rows of a panel.
inline constexpr int kByteRowBytes = 32;
inline constexpr int kByteTile = kTileRows * kByteRowBytes;

/// What LDTILECFG reads (Intel SDM volume 1, 18.2): palette 1 has 8 tiles of up to 16 rows of 64
/// bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// All tiles in full size.
constexpr TileConfig full_tiles() {
  TileConfig config;
  for (int i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = kTileRowBytes;
    config.rows[i] = kTileRows;
  }
  return config;
}

/// Tiles of bytes: 0 and 1 of panels, 2 and 3 of rows, the others their sums.
constexpr TileConfig byte_tiles(int rows) {
  TileConfig config;
  for (int i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = i / 2 == 1 ? kByteRowBytes : kTileRowBytes;
    config.rows[i] = static_cast<uint8_t>(i < 2 ? kByteRowBytes / 4 : rows);
  }
  return config;
}

#if defined(__x86_64__)

/// The tiles of this processor. EmulatedTiles (amx_emulated.h) has the same interface; the rows of
/// a tile lie one after the other in memory, 1 KiB in all, kByteTile bytes where they are told so.
///
/// Each instruction names the whole of the memory that it reads or writes, and clobbers "memory"
/// besides: GCC 12's own intrinsics name 8 bytes of the configuration and nothing of a tile, so
/// that the optimiser drops or moves stores that they need.
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
  /// The same of four bytes each to int32; those of kA are signed, those of kB as told.
  template <int kC, int kA, int kB, bool kUnsigned>
  void dot_bytes() const {
    if constexpr (kUnsigned)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB) : "memory");
    else
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB) : "memory");
  }
};

#endif

/// Whether processor, system and process have AMX with bf16 and int8, and a product of tiles comes
/// out right. Asks the system for permission, once.
bool amx_usable();

/// Why not, for people; empty if it is.
const char* amx_refusal();

}  // namespace veery
