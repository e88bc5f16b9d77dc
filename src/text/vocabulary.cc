#include "text/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "text/common/byte_alphabet.h"

namespace veery {
namespace {

constexpr uint64_t kAlphabeticSalt = 0x5851F42D4C957F2DU;

void check_length(const char* key, size_t found, size_t tokens) {
  if (found != tokens)
    throw Error(ErrorKind::kFormat, "{} has {} entries, but tokenizer.ggml.tokens has {}", key,
                found, tokens);
}

std::vector<TokenType> read_types(const Metadata& metadata, size_t count) {
  constexpr auto kKey = "tokenizer.ggml.token_type";
  std::vector<TokenType> types(count, TokenType::kNormal);
  if (!metadata.find(kKey)) return types;
  const std::vector<int64_t>* numbers = metadata.integers(kKey);
  check_length(kKey, numbers->size(), count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = (*numbers)[i];
    const bool known = number >= 0 && number <= static_cast<int64_t>(TokenType::kByte);
    types[i] = known ? static_cast<TokenType>(number) : TokenType::kUndefined;
  }
  return types;
}

std::vector<float> read_scores(const Metadata& metadata, size_t count) {
  constexpr auto kKey = "tokenizer.ggml.scores";
  const MetaValue* value = metadata.find(kKey);
  if (!value) return {};
  if (const auto* whole = std::get_if<std::vector<int64_t>>(value)) {
    check_length(kKey, whole->size(), count);
    return {whole->begin(), whole->end()};
  }
  const std::vector<double>* numbers = metadata.numbers(kKey);
  check_length(kKey, numbers->size(), count);
  return {numbers->begin(), numbers->end()};
}

// Tokens of these types are never written in the byte alphabet.
bool is_plain(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

}  // namespace

Vocabulary::Vocabulary(const Metadata& metadata, bool byte_level) : byte_level_(byte_level) {
  const std::vector<std::string_view>* tokens = metadata.texts("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty())
    throw Error(ErrorKind::kFormat, "tokenizer.ggml.tokens is {}, expected at least one token",
                tokens ? "empty" : "missing");
  types_ = read_types(metadata, tokens->size());
  scores_ = read_scores(metadata, tokens->size());
  fill(*tokens);
}

Vocabulary::Vocabulary(std::span<const std::string_view> tokens, std::vector<TokenType> types,
                       bool byte_level)
    : byte_level_(byte_level), types_(std::move(types)) {
  types_.resize(tokens.size(), TokenType::kNormal);
  fill(tokens);
}

void Vocabulary::fill(std::span<const std::string_view> tokens) {
  size_t total = 0;
  for (const std::string_view token : tokens) total += token.size();
  if (tokens.size() > std::numeric_limits<int32_t>::max() ||
      total > std::numeric_limits<uint32_t>::max())
    throw Error(ErrorKind::kLimit,
                "the vocabulary has {} tokens of {} bytes, at most {} and {} are supported",
                tokens.size(), total, std::numeric_limits<int32_t>::max(),
                std::numeric_limits<uint32_t>::max());
  bytes_.reserve(total);
  ends_.reserve(tokens.size());
  alphabetic_.resize(tokens.size());
  table_.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t begin = bytes_.size();
    const bool decoded =
        byte_level_ && !is_plain(types_[i]) && append_from_alphabet(bytes_, tokens[i]);
    if (!decoded) bytes_ += tokens[i];
    alphabetic_[i] = decoded;
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
    const auto id = static_cast<int32_t>(i);
    const std::string_view added = bytes(id);
    longest_ = std::max(longest_, added.size());
    if (bytes_.size() == begin) continue;  // an empty token never matches
    table_.insert(hash_of(added, decoded), id, [&](int32_t other) {
      return alphabetic(other) == decoded && bytes(other) == added;
    });
  }
}

uint64_t Vocabulary::hash_of(std::string_view bytes, bool alphabetic) {
  return hash_bytes(bytes) ^ (alphabetic ? kAlphabeticSalt : 0);
}

int32_t Vocabulary::find(std::string_view text, bool alphabetic_token, uint64_t hash) const {
  return table_.find(
      hash, [&](int32_t id) { return alphabetic(id) == alphabetic_token && bytes(id) == text; });
}

int32_t Vocabulary::find_written(std::string_view written) const {
  const int32_t plain = find(written, false);
  if (plain >= 0 || !byte_level_) return plain;
  std::string decoded;
  return append_from_alphabet(decoded, written) ? find(decoded, true) : -1;
}

int32_t Vocabulary::find_byte(unsigned char byte) const {
  const char text[1] = {static_cast<char>(byte)};
  if (byte_level_) {
    const int32_t id = find({text, 1}, true);
    return id >= 0 ? id : find(to_alphabet({text, 1}), false);
  }
  const int32_t id = find(fmt::format("<0x{:02X}>", byte), false);
  return id >= 0 ? id : find({text, 1}, false);
}

std::string Vocabulary::written(int32_t id) const {
  return alphabetic(id) ? to_alphabet(bytes(id)) : std::string(bytes(id));
}

}  // namespace veery
