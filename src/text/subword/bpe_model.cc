#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/byte_alphabet.h"
#include "text/special_tokens.h"
#include "text/subword/word_model.h"

namespace veery {
namespace {

constexpr size_t kLongestAffix = 64;  // in bytes; "</w>" has 4

// Returns a token as the vocabulary stores it.
std::string in_bytes(std::string_view text, bool byte_level) {
  std::string out;
  if (!byte_level || !append_from_alphabet(out, text)) out = text;
  return out;
}

}  // namespace

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary, std::span<const MergeText> merges,
                   Options options)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      merges_(merges, *vocabulary_,
              {.strict = true,
               .last_counts = true,
               .prefix = in_bytes(options_.prefix, vocabulary_->byte_level()).size()}) {
  const bool byte_level = vocabulary_->byte_level();
  options_.prefix = in_bytes(options_.prefix, byte_level);
  options_.suffix = in_bytes(options_.suffix, byte_level);
  for (const auto& [name, text] : {std::pair("continuing_subword_prefix", &options_.prefix),
                                   std::pair("end_of_word_suffix", &options_.suffix)})
    if (text->size() > kLongestAffix)
      throw Error(ErrorKind::kLimit, "\"{}\" has {} bytes, at most {} are permitted", name,
                  text->size(), kLongestAffix);
  has_affixes_ = !options_.prefix.empty() || !options_.suffix.empty();
  if (!options_.unknown.empty()) {
    unknown_ = vocabulary_->find_written(options_.unknown);
    if (unknown_ < 0)
      throw Error(ErrorKind::kFormat, "the unknown token \"{}\" is not in the vocabulary",
                  printable(options_.unknown));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text[1] = {static_cast<char>(byte)};
    const auto at = static_cast<size_t>(byte);
    byte_ids_[at] = vocabulary_->find_bytes({text, 1});
    fallback_ids_[at] = vocabulary_->find_written(fmt::format("<0x{:02X}>", byte));
  }
  find_cuts();
}

// If no token contains a character followed by a space mark, no merge crosses that position.
void BpeModel::find_cuts() {
  cuts_at_marks_ = !vocabulary_->byte_level() && !has_affixes_ && !options_.ignore_merges &&
                   vocabulary_->find_bytes(kSpaceMark) >= 0;
  if (!cuts_at_marks_) return;
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    const std::string_view text = vocabulary_->bytes(id);
    for (size_t at = 1; (at = text.find(kSpaceMark, at)) != std::string_view::npos; ++at) {
      size_t begin = at - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      ends_before_mark_.set(static_cast<unsigned char>(text[at - 1]));
      before_mark_.emplace_back(text.substr(begin, at - begin));
    }
  }
  std::sort(before_mark_.begin(), before_mark_.end());
  before_mark_.erase(std::unique(before_mark_.begin(), before_mark_.end()), before_mark_.end());
}

size_t BpeModel::next_cut(std::string_view word, size_t begin) const {
  for (size_t at = begin + 1; (at = word.find(kSpaceMark, at)) != std::string_view::npos; ++at) {
    if (!ends_before_mark_[static_cast<unsigned char>(word[at - 1])]) return at;
    size_t before = at - 1;
    while (before > begin && (static_cast<unsigned char>(word[before]) & 0xC0) == 0x80) --before;
    if (!std::binary_search(before_mark_.begin(), before_mark_.end(),
                            word.substr(before, at - before)))
      return at;
  }
  return word.size();
}

int32_t BpeModel::character_id(std::string_view character, bool first, bool last,
                               std::string& text) const {
  if (!has_affixes_) {
    return character.size() == 1 ? byte_ids_[static_cast<unsigned char>(character[0])]
                                 : vocabulary_->find_bytes(character);
  }
  text.clear();
  if (!first) text += options_.prefix;
  text += character;
  if (last) text += options_.suffix;
  return vocabulary_->find_bytes(text);
}

void BpeModel::start_symbols(std::string_view word, ModelScratch& scratch) const {
  std::vector<TextSymbol>& symbols = scratch.symbols;
  symbols.clear();
  const auto size = static_cast<uint32_t>(word.size());
  TextSymbol unknown;  // pending until a known character follows, as in the original
  const auto flush = [&] {
    if (unknown.id >= 0) symbols.push_back(unknown);
    unknown.id = -1;
  };
  for (uint32_t at = 0; at < size;) {
    const uint32_t length = vocabulary_->byte_level()
                                ? 1
                                : static_cast<uint32_t>(next_code_point(word.substr(at)).length);
    const std::string_view character = word.substr(at, length);
    const uint32_t begin = std::exchange(at, at + length);
    const int32_t id = character_id(character, begin == 0, at == size, scratch.text);
    if (id >= 0) {
      flush();
      symbols.push_back({id, begin, at});
      continue;
    }
    const std::string_view whole = has_affixes_ ? std::string_view(scratch.text) : character;
    const auto fallback = [&](char c) { return fallback_ids_[static_cast<unsigned char>(c)]; };
    if (options_.byte_fallback &&
        std::all_of(whole.begin(), whole.end(), [&](char c) { return fallback(c) >= 0; })) {
      for (size_t i = 0; i < whole.size(); ++i) {
        const auto part = begin + static_cast<uint32_t>(std::min<size_t>(i, length));
        symbols.push_back({fallback(whole[i]), part, std::min(part + 1, at)});
      }
      continue;
    }
    if (unknown_ < 0) {
      scratch.lose(character);
      continue;
    }
    if (!options_.fuse_unknown) flush();
    unknown = {unknown_, unknown.id >= 0 ? unknown.begin : begin, at};
  }
  flush();
}

void BpeModel::encode(std::string_view word, ModelScratch& scratch,
                      std::vector<int32_t>& out) const {
  if (options_.ignore_merges) {
    const int32_t id = vocabulary_->find_bytes(word);
    if (id >= 0) {
      out.push_back(id);
      return;
    }
  }
  start_symbols(word, scratch);
  const size_t count = join_symbols(
      std::span<TextSymbol>(scratch.symbols),
      [&](const TextSymbol& left, const TextSymbol& right) {
        return merges_.find(left.id, right.id);
      },
      scratch.join);
  for (size_t i = 0; i < count; ++i) out.push_back(scratch.symbols[i].id);
}

}  // namespace veery
