// vocabulary.h: the tokens of a model: bytes, types, scores and look-up from bytes to ids.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"
#include "text/common/string_table.h"

namespace veery {

/// Values of `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
  kUndefined,
  kNormal,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,
  kByte
};

/// Byte-level vocabularies have two namespaces: plain tokens, and tokens written in the byte
/// alphabet, which are stored as the bytes that they represent.
class Vocabulary {
 public:
  /// Reads tokenizer.ggml.tokens, .token_type and .scores. Throws kFormat, naming the list and its
  /// length, if the lengths differ.
  Vocabulary(const Metadata& metadata, bool byte_level);

  /// `tokens`: by id, "" for unused ids. `types`: one per token, or empty (all normal). Look-ups of
  /// duplicate tokens return the first. Throws kLimit if the vocabulary is too large.
  Vocabulary(std::span<const std::string_view> tokens, std::vector<TokenType> types,
             bool byte_level);

  bool byte_level() const { return byte_level_; }
  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool has_scores() const { return !scores_.empty(); }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  void set_type(int32_t id, TokenType type) { types_[static_cast<size_t>(id)] = type; }
  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }  ///< bytes of the longest token

  /// Whether the token is written in the byte alphabet.
  bool alphabetic(int32_t id) const { return alphabetic_[static_cast<size_t>(id)] != 0; }

  /// Returns the bytes of a token; plain tokens verbatim.
  std::string_view bytes(int32_t id) const {
    const size_t begin = id == 0 ? 0 : ends_[static_cast<size_t>(id) - 1];
    return {bytes_.data() + begin, ends_[static_cast<size_t>(id)] - begin};
  }
  /// Returns the token as written in the vocabulary.
  std::string written(int32_t id) const;

  /// Returns the token for bytes of text, or -1: a token of the byte alphabet if the vocabulary is
  /// byte-level, otherwise any.
  int32_t find_bytes(std::string_view bytes) const { return find_bytes(bytes, hash_of(bytes)); }
  /// The same with a precomputed hash, whose table entry may have been prefetched.
  int32_t find_bytes(std::string_view bytes, uint64_t hash) const {
    return find(bytes, byte_level_, hash);
  }
  uint64_t hash_of(std::string_view bytes) const { return hash_of(bytes, byte_level_); }
  void prefetch(uint64_t hash) const { table_.prefetch(hash); }
  /// Returns the token with this spelling in the vocabulary, or -1.
  int32_t find_written(std::string_view written) const;
  /// Returns the token for one byte ("<0x0A>", or the byte itself), or -1.
  int32_t find_byte(unsigned char byte) const;

 private:
  void fill(std::span<const std::string_view> tokens);
  static uint64_t hash_of(std::string_view bytes, bool alphabetic);
  int32_t find(std::string_view bytes, bool alphabetic, uint64_t hash) const;
  int32_t find(std::string_view bytes, bool alphabetic) const {
    return find(bytes, alphabetic, hash_of(bytes, alphabetic));
  }

  bool byte_level_;
  size_t longest_ = 0;
  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<TokenType> types_;
  std::vector<uint8_t> alphabetic_;
  std::vector<float> scores_;
  StringTable table_;
};

}  // namespace veery
