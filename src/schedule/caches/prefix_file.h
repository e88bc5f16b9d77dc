// prefix_file.h: the format of a file of the prefix cache on disk.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace veery {

/// The contents of a file.
enum class PrefixKind : uint32_t {
  kBlock = 1,  ///< one page (kPagePositions tokens) of every growing KV cache
  /// Everything else that a sequence needs at one position: partly filled pages, sliding windows,
  /// recurrent states.
  kState = 2,
};

/// The header of a file; all numbers are little-endian. After the header follow, each padded to a
/// multiple of 8 bytes: `tokens` ids as i32, the pages, and a hash of everything before it (u64).
struct PrefixHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t kind;      ///< PrefixKind
  uint64_t model;     ///< hash of the model and of the layout of its caches (prefix_model_key())
  uint64_t parent;    ///< hash of the blocks of tokens before these
  uint64_t bytes;     ///< size of the whole file
  uint32_t tokens;    ///< number of ids in this file
  uint32_t position;  ///< number of tokens up to the end of these
};
static_assert(sizeof(PrefixHeader) == 48);
inline constexpr std::array<char, 8> kPrefixMagic = {'v', 'e', 'e', 'r', 'y', 'p', 'f', 'x'};
inline constexpr uint32_t kPrefixVersion = 1;

struct PrefixPart {
  PrefixKind kind = PrefixKind::kBlock;
  uint64_t model = 0, parent = 0;
  int32_t position = 0;
  std::vector<int32_t> ids;
  std::vector<std::byte> pages;  ///< as StateStore::read_page() returns them, one after another
};

/// Returns the size of a file with `tokens` ids and `page_bytes` bytes of pages.
uint64_t prefix_file_bytes(size_t tokens, uint64_t page_bytes);
std::vector<std::byte> encode_prefix(const PrefixPart& part);

/// Parses header and ids, without pages. `head`: the first prefix_file_bytes(kPagePositions, 0)
/// bytes of the file, or all of a smaller file. `bytes`: the size of the file. Throws kFormat if
/// the file has another format, belongs to another model or contradicts itself.
PrefixPart parse_prefix_head(std::span<const std::byte> head, uint64_t bytes, uint64_t model);
/// Parses a whole file. Throws kFormat as above, and if the hash shows damage.
PrefixPart parse_prefix(std::span<const std::byte> bytes, uint64_t model);

}  // namespace veery
