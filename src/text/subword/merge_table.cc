#include "text/subword/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/byte_alphabet.h"

namespace veery {
namespace {

// A merge as bytes of the vocabulary; empty if a character is not in the byte alphabet.
struct Written {
  std::string pair, shortened;
  size_t cut = 0;
  uint64_t left_hash = 0, right_hash = 0;

  std::string_view left() const { return std::string_view(pair).substr(0, cut); }
  std::string_view right() const { return std::string_view(pair).substr(cut); }
  std::string_view merged(size_t prefix) const { return prefix == 0 ? pair : shortened; }

  void read(const MergeText& merge, bool byte_level, size_t prefix) {
    pair.clear();
    cut = 0;
    if (!byte_level) {
      pair.append(merge.left).append(merge.right);
      cut = merge.left.size();
    } else if (append_from_alphabet(pair, merge.left)) {
      cut = pair.size();
      if (!append_from_alphabet(pair, merge.right)) pair.clear(), cut = 0;
    }
    if (prefix == 0) return;
    shortened = left();
    shortened += right().substr(std::min(prefix, right().size()));
  }
};

}  // namespace

std::vector<MergeText> cut_merges(std::span<const std::string_view> merges, std::string_view what) {
  std::vector<MergeText> out;
  out.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const size_t space = merges[i].find(' ', 1);
    if (space == std::string_view::npos)
      throw Error(ErrorKind::kFormat, "{}[{}] is \"{}\", expected two tokens", what, i,
                  printable(merges[i]));
    out.push_back({merges[i].substr(0, space), merges[i].substr(space + 1)});
  }
  return out;
}

MergeTable::MergeTable(std::span<const MergeText> merges, const Vocabulary& vocabulary,
                       const MergeRules& rules) {
  slots_.resize(std::bit_ceil(merges.size() + merges.size() / 2 + 2));
  mask_ = slots_.size() - 1;
  // Look-ups are limited by memory latency: the slots of a block are prefetched before the
  // look-ups.
  constexpr size_t kBlock = 32;
  std::array<Written, kBlock> block;
  int32_t merged = -1;
  for (size_t first = 0; first < merges.size(); first += kBlock) {
    const size_t count = std::min(kBlock, merges.size() - first);
    for (size_t i = 0; i < count; ++i) {
      Written& merge = block[i];
      merge.read(merges[first + i], vocabulary.byte_level(), rules.prefix);
      merge.left_hash = vocabulary.hash_of(merge.left());
      merge.right_hash = vocabulary.hash_of(merge.right());
      vocabulary.prefetch(merge.left_hash);
      vocabulary.prefetch(merge.right_hash);
    }
    for (size_t i = 0; i < count; ++i) {
      const Written& merge = block[i];
      const std::string_view text = merge.merged(rules.prefix);
      // Plain text never becomes a special token, so only other tokens are looked up.
      const int32_t left = vocabulary.find_bytes(merge.left(), merge.left_hash);
      const int32_t right = vocabulary.find_bytes(merge.right(), merge.right_hash);
      // Merges are usually in the order of their tokens, so the next id is tried before the hash
      // table.
      const auto is_pair = [&](int32_t id) {
        return id >= 0 && id < vocabulary.size() && vocabulary.bytes(id) == text &&
               vocabulary.type(id) == TokenType::kNormal;
      };
      if (!is_pair(merged)) merged = is_pair(merged + 1) ? merged + 1 : vocabulary.find_bytes(text);
      if (left >= 0 && right >= 0 && merged >= 0)
        insert(left, right, {static_cast<uint32_t>(first + i), merged}, rules.last_counts);
      else if (rules.strict)
        throw Error(ErrorKind::kFormat,
                    "merge {} of \"{}\" and \"{}\": one of them or the merged token is not in the "
                    "vocabulary",
                    first + i, printable(merges[first + i].left),
                    printable(merges[first + i].right));
    }
  }
}

void MergeTable::insert(int32_t left, int32_t right, Join join, bool last_counts) {
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  for (; slots_[at].join.id >= 0; at = (at + 1) & mask_)
    if (slots_[at].key == key && !last_counts)
      return;
    else if (slots_[at].key == key)
      break;
  slots_[at] = {key, join};
}

}  // namespace veery
