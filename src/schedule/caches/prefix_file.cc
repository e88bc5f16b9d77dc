#include "schedule/caches/prefix_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/common/pages.h"

namespace veery {
namespace {

constexpr uint64_t kUnit = 8;  // each part is padded to a multiple of it

uint64_t padded(uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

void require(bool right, const char* what) {
  if (!right) throw Error(ErrorKind::kFormat, "prefix cache: the file {}", what);
}

}  // namespace

uint64_t prefix_file_bytes(size_t tokens, uint64_t page_bytes) {
  return sizeof(PrefixHeader) + padded(tokens * sizeof(int32_t)) + padded(page_bytes) +
         sizeof(uint64_t);
}

std::vector<std::byte> encode_prefix(const PrefixPart& part) {
  const uint64_t size = prefix_file_bytes(part.ids.size(), part.pages.size());
  const PrefixHeader header{kPrefixMagic,
                            kPrefixVersion,
                            static_cast<uint32_t>(part.kind),
                            part.model,
                            part.parent,
                            size,
                            static_cast<uint32_t>(part.ids.size()),
                            static_cast<uint32_t>(part.position)};
  std::vector<std::byte> bytes(size);
  const size_t ids = part.ids.size() * sizeof(int32_t);
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (ids > 0) std::memcpy(bytes.data() + sizeof(header), part.ids.data(), ids);
  std::ranges::copy(part.pages,
                    bytes.begin() + static_cast<ptrdiff_t>(sizeof(header) + padded(ids)));
  const uint64_t hash = hash_of(std::span(bytes).first(size - sizeof(uint64_t)));
  std::memcpy(bytes.data() + size - sizeof(hash), &hash, sizeof(hash));
  return bytes;
}

PrefixPart parse_prefix_head(std::span<const std::byte> head, uint64_t bytes, uint64_t model) {
  PrefixHeader header{};
  require(head.size() >= sizeof(header), "is too short");
  std::memcpy(&header, head.data(), sizeof(header));
  require(header.magic == kPrefixMagic, "has a wrong magic number");
  require(header.version == kPrefixVersion, "has an unsupported version");
  require(header.model == model, "belongs to another model");
  require(header.bytes == bytes && bytes % kUnit == 0, "was truncated or extended");
  const bool block = header.kind == static_cast<uint32_t>(PrefixKind::kBlock);
  require(block || header.kind == static_cast<uint32_t>(PrefixKind::kState), "has an unknown kind");
  require(header.position > 0 && header.position <= INT32_MAX, "has a position out of range");
  const uint32_t rest = header.position % kPagePositions;
  require(header.tokens == (block ? kPagePositions : rest) && (!block || rest == 0),
          "has a number of tokens that contradicts its position");
  const size_t ids = header.tokens * sizeof(int32_t);
  require(bytes >= prefix_file_bytes(header.tokens, 0) && head.size() >= sizeof(header) + ids,
          "is too short for its tokens");
  PrefixPart part{block ? PrefixKind::kBlock : PrefixKind::kState,
                  header.model,
                  header.parent,
                  static_cast<int32_t>(header.position),
                  std::vector<int32_t>(header.tokens),
                  {}};
  if (ids > 0) std::memcpy(part.ids.data(), head.data() + sizeof(header), ids);
  return part;
}

PrefixPart parse_prefix(std::span<const std::byte> bytes, uint64_t model) {
  PrefixPart part = parse_prefix_head(bytes, bytes.size(), model);
  uint64_t hash = 0;
  const auto before = bytes.first(bytes.size() - sizeof(hash));
  std::memcpy(&hash, before.data() + before.size(), sizeof(hash));
  require(hash == hash_of(before), "is damaged: wrong hash");
  const auto pages =
      before.subspan(sizeof(PrefixHeader) + padded(part.ids.size() * sizeof(int32_t)));
  part.pages.assign(pages.begin(), pages.end());
  return part;
}

}  // namespace veery
