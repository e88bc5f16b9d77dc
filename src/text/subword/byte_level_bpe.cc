#include "text/subword/byte_level_bpe.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/common/byte_alphabet.h"
#include "text/common/characters.h"

namespace veery {
namespace {

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

// Reads the merges of the metadata.
std::vector<MergeText> read_merges(const Metadata& metadata) {
  const std::vector<std::string_view>* merges = metadata.texts("tokenizer.ggml.merges");
  if (!merges) throw Error(ErrorKind::kFormat, "tokenizer.ggml.merges is missing");
  return cut_merges(*merges, "tokenizer.ggml.merges");
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(const Metadata& metadata, const PreTokenizerInfo& info)
    : VocabularyTokenizer(metadata, Vocabulary(metadata, !info.plain_bytes),
                          {.add_bos = info.add_bos}, info.space_marks),
      info_(info),
      pre_tokenizer_(info.patterns),
      merges_(read_merges(metadata), vocabulary_) {
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_[static_cast<size_t>(byte)] = vocabulary_.find_byte(static_cast<unsigned char>(byte));
}

void ByteLevelBpe::encode_plain(std::string_view text, bool, std::vector<int32_t>& out,
                                LostBytes& lost) const {
  std::string changed;
  if (info_.compose) {
    changed = normal_form(text, NormalForm::kNfc);
    text = changed;
  }
  if (info_.space_marks) {
    changed = with_space_marks(text);
    text = changed;
  }
  std::vector<uint32_t> ends;
  pre_tokenizer_.split(text, ends);
  Scratch scratch;
  scratch.text = text.data();
  size_t begin = 0;
  for (const uint32_t end : ends) {
    encode_word(text.substr(begin, end - begin), scratch, out);
    begin = end;
  }
  lost = scratch.lost;
  // Offsets in the changed text are not those of the original.
  if (info_.compose || info_.space_marks) lost.first = 0;
}

void ByteLevelBpe::start_symbols(std::string_view word, Scratch& scratch) const {
  std::vector<TextSymbol>& symbols = scratch.symbols;
  symbols.clear();
  const auto size = static_cast<uint32_t>(word.size());
  if (!info_.plain_bytes) {
    // A byte missing in the vocabulary is dropped before merging, as in the models' own tokenizers.
    for (uint32_t i = 0; i < size; ++i) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
      if (id >= 0)
        symbols.push_back({id, i, i + 1});
      else
        scratch.lose(&word[i]);
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
  start_symbols(word, scratch);
  const size_t count = join_symbols(
      std::span<TextSymbol>(scratch.symbols),
      [&](const TextSymbol& left, const TextSymbol& right) {
        return merges_.find(left.id, right.id);
      },
      scratch.join);
  for (size_t i = 0; i < count; ++i) {
    const TextSymbol& symbol = scratch.symbols[i];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
      continue;
    }
    for (uint32_t at = symbol.begin; at < symbol.end; ++at) {
      int32_t id = byte_ids_[static_cast<unsigned char>(word[at])];
      if (id < 0) id = special_.unknown;
      if (id >= 0)
        out.push_back(id);
      else
        scratch.lose(&word[at]);
    }
  }
}

}  // namespace veery
