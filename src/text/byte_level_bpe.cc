#include "text/byte_level_bpe.h"

#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_alphabet.h"

namespace veery {
namespace {

// Below U+0300 every text is in form NFC.
bool may_need_composing(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

// NFC; text that is not UTF-8 stays as it is.
std::string composed(std::string_view text) {
  struct FreeText {
    void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
  };
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                   static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, FreeText> owner(bytes);
  if (size < 0) return std::string(text);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
}

std::string with_space_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ')
      out += kSpaceMark;
    else
      out.push_back(c);
  }
  return out;
}

// A merge as the file writes it; one with characters outside the byte alphabet has an empty pair.
struct Written {
  std::string pair;
  size_t cut = 0;
  uint64_t left_hash = 0, right_hash = 0;

  std::string_view left() const { return std::string_view(pair).substr(0, cut); }
  std::string_view right() const { return std::string_view(pair).substr(cut); }

  // False if there are no two parts.
  bool read(std::string_view entry, bool byte_level) {
    pair.clear();
    cut = 0;
    const size_t space = entry.find(' ', 1);
    if (space == std::string_view::npos) return false;
    const std::string_view first = entry.substr(0, space), second = entry.substr(space + 1);
    if (!byte_level) {
      pair.append(first).append(second);
      cut = first.size();
    } else if (append_from_alphabet(pair, first)) {
      cut = pair.size();
      if (!append_from_alphabet(pair, second)) pair.clear(), cut = 0;
    }
    return true;
  }
};

}  // namespace

MergeTable::MergeTable(const Metadata& metadata, const Vocabulary& vocabulary, bool byte_level) {
  const std::vector<std::string_view>* merges = metadata.texts("tokenizer.ggml.merges");
  if (!merges) throw Error(ErrorKind::kFormat, "tokenizer.ggml.merges is missing");
  slots_.resize(std::bit_ceil(merges->size() + merges->size() / 2 + 2));
  mask_ = slots_.size() - 1;
  // Look-ups wait for memory: those of one block are announced together before the first is made.
  constexpr size_t kBlock = 32;
  std::array<Written, kBlock> block;
  int32_t merged = -1;
  for (size_t first = 0; first < merges->size(); first += kBlock) {
    const size_t count = std::min(kBlock, merges->size() - first);
    for (size_t i = 0; i < count; ++i) {
      Written& merge = block[i];
      if (!merge.read((*merges)[first + i], byte_level))
        throw Error(ErrorKind::kFormat, "tokenizer.ggml.merges[{}] is \"{}\", expected two tokens",
                    first + i, valid_utf8((*merges)[first + i]));
      merge.left_hash = vocabulary.hash_of(merge.left());
      merge.right_hash = vocabulary.hash_of(merge.right());
      vocabulary.prefetch(merge.left_hash);
      vocabulary.prefetch(merge.right_hash);
    }
    for (size_t i = 0; i < count; ++i) {
      const Written& merge = block[i];
      // Special tokens never come out of plain text, so only the others are looked for.
      const int32_t left = vocabulary.find_bytes(merge.left(), merge.left_hash);
      const int32_t right = vocabulary.find_bytes(merge.right(), merge.right_hash);
      if (left < 0 || right < 0) continue;
      // Lists are mostly written in the order of their tokens: look there before asking the table.
      const auto is_pair = [&](int32_t id) {
        return id >= 0 && id < vocabulary.size() && vocabulary.bytes(id) == merge.pair &&
               vocabulary.type(id) == TokenType::kNormal;
      };
      if (!is_pair(merged))
        merged = is_pair(merged + 1) ? merged + 1 : vocabulary.find_bytes(merge.pair);
      if (merged >= 0) insert(left, right, {static_cast<uint32_t>(first + i), merged});
    }
  }
}

void MergeTable::insert(int32_t left, int32_t right, Join join) {
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  for (; slots_[at].join.id >= 0; at = (at + 1) & mask_)
    if (slots_[at].key == key) return;  // the first of two equal merges counts
  slots_[at] = {key, join};
}

ByteLevelBpe::ByteLevelBpe(const Metadata& metadata, const PreTokenizerInfo& info)
    : VocabularyTokenizer(metadata, Vocabulary(metadata, !info.plain_bytes),
                          {.add_bos = info.add_bos}, info.space_marks),
      info_(info),
      pre_tokenizer_(info.patterns),
      merges_(metadata, vocabulary_, !info.plain_bytes) {
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_[static_cast<size_t>(byte)] = vocabulary_.find_byte(static_cast<unsigned char>(byte));
}

void ByteLevelBpe::encode_plain(std::string_view text, bool, std::vector<int32_t>& out) const {
  std::string changed;
  if (info_.compose && may_need_composing(text)) {
    changed = composed(text);
    text = changed;
  }
  if (info_.space_marks) {
    changed = with_space_marks(text);
    text = changed;
  }
  std::vector<uint32_t> ends;
  pre_tokenizer_.split(text, ends);
  Scratch scratch;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    encode_word(text.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

void ByteLevelBpe::start_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  const auto size = static_cast<uint32_t>(word.size());
  if (!info_.plain_bytes) {
    // A byte that the vocabulary lacks disappears before merging, as in the models' own tokenizers.
    for (uint32_t i = 0; i < size; ++i) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
      if (id >= 0) symbols.push_back({id, i, i + 1});
    }
    return;
  }
  for (uint32_t i = 0; i < size;) {
    const CodePoint point = next_code_point(word.substr(i));
    const auto length = static_cast<uint32_t>(point.length);
    symbols.push_back({vocabulary_.find_bytes(word.substr(i, length)), i, i + length});
    i += length;
  }
}

void ByteLevelBpe::encode_word(std::string_view word, Scratch& scratch,
                               std::vector<int32_t>& out) const {
  const bool only_newlines =
      info_.newline_tokens && word.find_first_not_of('\n') == std::string_view::npos;
  if (info_.ignore_merges || only_newlines) {
    const int32_t id = vocabulary_.find_bytes(word);
    if (id >= 0) {
      out.push_back(id);
      return;
    }
  }
  start_symbols(word, scratch.symbols);
  const size_t count = join_symbols(
      std::span<Symbol>(scratch.symbols),
      [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); },
      scratch.join);
  for (size_t i = 0; i < count; ++i) {
    const Symbol& symbol = scratch.symbols[i];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
      continue;
    }
    for (uint32_t at = symbol.begin; at < symbol.end; ++at) {
      int32_t id = byte_ids_[static_cast<unsigned char>(word[at])];
      if (id < 0) id = special_.unknown;
      if (id >= 0) out.push_back(id);
    }
  }
}

}  // namespace veery
