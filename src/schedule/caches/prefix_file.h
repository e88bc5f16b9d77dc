// prefix_file.h: one file of the prefix cache on disk: what caches hold of some tokens.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace veery {

/// A page of every cache that grows, for kPagePositions tokens; or what beside such pages a
/// sequence needs at one position: the page that is not full, windows, recurrent states.
enum class PrefixKind : uint32_t { kBlock = 1, kState = 2 };

/// How such a file begins; numbers are little-endian. After it, each up to a multiple of 8 bytes:
/// `tokens` ids, i32; the pages; a hash of all before it.
struct PrefixHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t kind;      ///< PrefixKind
  uint64_t model;     ///< of the model and the layout of its caches (PrefixStore)
  uint64_t parent;    ///< hash of the blocks of tokens before these
  uint64_t bytes;     ///< of the whole file
  uint32_t tokens;    ///< ids in this file
  uint32_t position;  ///< tokens up to the end of these
};
static_assert(sizeof(PrefixHeader) == 48);
inline constexpr std::array<char, 8> kPrefixMagic = {'v', 'e', 'e', 'r', 'y', 'p', 'f', 'x'};
inline constexpr uint32_t kPrefixVersion = 1;

struct PrefixPart {
  PrefixKind kind = PrefixKind::kBlock;
  uint64_t model = 0, parent = 0;
  int32_t position = 0;
  std::vector<int32_t> ids;
  std::vector<std::byte> pages;  ///< StateStore::read_page(), one after the other
};

/// Bytes of the file of a part with so many pages' bytes.
uint64_t prefix_file_bytes(size_t tokens, uint64_t page_bytes);
std::vector<std::byte> encode_prefix(const PrefixPart& part);

/// The part without its pages, of the first bytes of a file: prefix_file_bytes(kPagePositions, 0)
/// or all of a shorter one. `bytes`: those of the whole file. Throws kFormat for what is no such
/// file of `model`, or says what cannot be.
PrefixPart parse_prefix_head(std::span<const std::byte> head, uint64_t bytes, uint64_t model);
/// The whole part. Throws kFormat as above, and where the hash shows that it is damaged.
PrefixPart parse_prefix(std::span<const std::byte> bytes, uint64_t model);

}  // namespace veery
