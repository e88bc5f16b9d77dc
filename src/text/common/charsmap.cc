#include "text/common/charsmap.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "text/common/characters.h"

namespace veery {
namespace {

// Fields of a unit of a Darts-clone double array.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFU; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

constexpr size_t kLongestKey = 256;     // in bytes; SentencePiece's own keys have fewer than 30
constexpr size_t kLongestGrapheme = 6;  // in bytes; longer clusters are replaced by characters

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (bytes.size() < 4 || size % 4 != 0 || size == 0 || size > bytes.size() - 4)
    throw Error(ErrorKind::kFormat,
                "character map of {} bytes: the array has {} bytes, expected a multiple of 4 that "
                "fits",
                bytes.size(), size);
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  blob_ = bytes.substr(4 + size);
}

std::string_view Charsmap::replacement_at(uint32_t offset) const {
  if (offset >= blob_.size()) return {};
  const std::string_view rest = std::string_view(blob_).substr(offset);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

// Calls visit(length, offset of the replacement) for each key that is a prefix of `text`, shortest
// first, until it returns false.
template <typename Visit>
void Charsmap::for_each_prefix(std::string_view text, const Visit& visit) const {
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < std::min(text.size(), kLongestKey); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) return;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || !visit(i + 1, value_of(units_[node]))) return;
  }
}

Charsmap::Match Charsmap::shortest(std::string_view text) const {
  Match match;
  for_each_prefix(text, [&](size_t length, uint32_t offset) {
    match = {length, replacement_at(offset)};
    return false;
  });
  return match;
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match match;
  for_each_prefix(text, [&](size_t length, uint32_t offset) {
    match = {length, replacement_at(offset)};
    return true;
  });
  return match;
}

std::string Charsmap::by_graphemes(std::string_view text, std::string_view step,
                                   const Growth& growth) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    growth.check(step, out.size());
    const std::string_view cluster = text.substr(0, grapheme_length(text));
    text.remove_prefix(cluster.size());
    // The shortest key that is a prefix of the cluster replaces the whole cluster.
    const Match whole = cluster.size() < kLongestGrapheme ? shortest(cluster) : Match{};
    if (whole.length > 0) {
      out += whole.replacement;
      continue;
    }
    for_each_character(cluster, [&](char32_t, std::string_view character) {
      const Match match = shortest(character);
      out += match.length > 0 ? match.replacement : character;
    });
  }
  return out;
}

std::string Charsmap::by_longest(std::string_view text, std::string_view step,
                                 const Growth& growth) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    growth.check(step, out.size());
    const Match match = longest(text);
    if (match.length > 0) {
      out += match.replacement;
      text.remove_prefix(match.length);
      continue;
    }
    const CodePoint point = next_code_point(text);
    if (point.valid)
      out += text.substr(0, static_cast<size_t>(point.length));
    else
      append_utf8(out, kReplacementCharacter);
    text.remove_prefix(point.valid ? static_cast<size_t>(point.length) : 1);
  }
  return out;
}

}  // namespace veery
