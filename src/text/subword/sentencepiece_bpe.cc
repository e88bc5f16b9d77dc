#include "text/subword/sentencepiece_bpe.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"

namespace veery {
namespace {

// Maps scores to priorities: higher scores to smaller values, NaN to the lowest priority. The
// result is never Join::kNever.
uint32_t priority_of(float score) {
  if (std::isnan(score)) return Join::kNever - 1;
  const auto bits = std::bit_cast<uint32_t>(score == 0 ? 0.0F : score);
  const uint32_t ascending = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return ~ascending;  // at most 0xFF800000 unless NaN
}

}  // namespace

SentencePieceBpe::SentencePieceBpe(const Metadata& metadata)
    : VocabularyTokenizer(metadata, Vocabulary(metadata, false), kSentencePieceDefaults, true),
      add_prefix_(metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(true)),
      remove_extra_(metadata.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false)) {
  if (!vocabulary_.has_scores())
    throw Error(ErrorKind::kFormat,
                "tokenizer.ggml.scores is missing; tokenizer.ggml.model \"llama\" needs it");
  adds_space_ = add_prefix_;
  if (metadata.find("tokenizer.ggml.precompiled_charsmap")) {
    std::string bytes;
    for (const int64_t byte : *metadata.integers("tokenizer.ggml.precompiled_charsmap"))
      bytes.push_back(static_cast<char>(byte));
    if (!bytes.empty()) map_.emplace(bytes);
  }
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_[static_cast<size_t>(byte)] = vocabulary_.find_byte(static_cast<unsigned char>(byte));
  find_word_boundaries();
}

// The text can be cut where no token crosses: merges on both sides are independent. Collects the
// bytes after which a token contains a space mark, where cutting is not possible.
void SentencePieceBpe::find_word_boundaries() {
  for (int32_t id = 0; id < size_; ++id) {
    const std::string_view text = vocabulary_.bytes(id);
    for (size_t at = 1; (at = text.find(kSpaceMark, at)) != std::string_view::npos; ++at)
      if (text.substr(0, at).substr(at >= 3 ? at - 3 : 0) != kSpaceMark)
        binds_mark_.set(static_cast<unsigned char>(text[at - 1]));
  }
}

std::string SentencePieceBpe::normalized(std::string_view text, bool starts) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
  if (remove_extra_) {
    const size_t first = text.find_first_not_of(' ');
    text = first == std::string_view::npos
               ? std::string_view()
               : text.substr(first, text.find_last_not_of(' ') - first + 1);
    if (text.empty()) return out;
  }
  if (add_prefix_ && starts) out += kSpaceMark;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ' ') {
      out.push_back(text[i]);
    } else if (!remove_extra_ || text[i - 1] != ' ') {
      out += kSpaceMark;
    }
  }
  return out;
}

void SentencePieceBpe::encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                                    LostBytes& lost) const {
  const Growth growth(text.size(), 0);
  const std::string marked = normalized(
      map_ ? map_->by_longest(text, "the character map", growth) : std::string(text), starts);
  const std::string_view rest = marked;
  Scratch scratch;
  size_t begin = 0;
  for (size_t at = 1; (at = rest.find(kSpaceMark, at)) != std::string_view::npos;
       at += kSpaceMark.size()) {
    const bool after_mark = at >= begin + 3 && rest.substr(at - 3, 3) == kSpaceMark;
    if (at == begin || after_mark || binds_mark_[static_cast<unsigned char>(rest[at - 1])])
      continue;
    encode_word(rest.substr(begin, at - begin), scratch, out);
    begin = at;
  }
  if (begin < rest.size()) encode_word(rest.substr(begin), scratch, out);
  lost.add(scratch.lost, 0);
}

// Text never becomes a control, unknown or byte token by its spelling.
int32_t SentencePieceBpe::text_token(std::string_view bytes) const {
  const int32_t id = vocabulary_.find_bytes(bytes);
  if (id < 0) return -1;
  const TokenType type = vocabulary_.type(id);
  const bool text =
      type != TokenType::kControl && type != TokenType::kUnknown && type != TokenType::kByte;
  return text ? id : -1;
}

Join SentencePieceBpe::join_of(std::string_view word, const TextSymbol& left,
                               const TextSymbol& right) const {
  const size_t length = right.end - left.begin;
  if (length > vocabulary_.longest()) return {};
  const int32_t id = text_token(word.substr(left.begin, length));
  return id < 0 ? Join{} : Join{priority_of(vocabulary_.score(id)), id};
}

void SentencePieceBpe::encode_word(std::string_view word, Scratch& scratch,
                                   std::vector<int32_t>& out) const {
  scratch.symbols.clear();
  for (size_t i = 0; i < word.size();) {
    const auto length = static_cast<size_t>(next_code_point(word.substr(i)).length);
    scratch.symbols.push_back({-1, static_cast<uint32_t>(i), static_cast<uint32_t>(i + length)});
    i += length;
  }
  const size_t count = join_symbols(
      std::span<TextSymbol>(scratch.symbols),
      [&](const TextSymbol& left, const TextSymbol& right) { return join_of(word, left, right); },
      scratch.join);
  for (size_t i = 0; i < count; ++i) {
    const TextSymbol& symbol = scratch.symbols[i];
    const std::string_view text = word.substr(symbol.begin, symbol.end - symbol.begin);
    const int32_t id = symbol.id >= 0 ? symbol.id : text_token(text);
    if (id >= 0) {
      out.push_back(id);
      continue;
    }
    for (size_t at = 0; at < text.size(); ++at) {
      const int32_t byte_id = byte_ids_[static_cast<unsigned char>(text[at])];
      if (byte_id >= 0) {
        out.push_back(byte_id);
      } else {
        if (special_.unknown < 0) scratch.lost += text.size() - at;
        // Adjacent unknown characters become one unknown token.
        if (special_.unknown >= 0 && out.size() != scratch.after_unknown)
          out.push_back(special_.unknown);
        scratch.after_unknown = out.size();
        break;
      }
    }
  }
}

}  // namespace veery
