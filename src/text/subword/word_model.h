// word_model.h: the `model` of a tokenizer.json: converts a word to ids.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/subword/merge.h"
#include "text/subword/merge_table.h"
#include "text/vocabulary.h"

namespace veery {

/// Working memory of models. Not thread-safe.
struct ModelScratch {
  std::vector<TextSymbol> symbols;
  JoinScratch join;
  struct Node {
    double score = 0;
    int32_t id = -1;
    uint32_t begin = UINT32_MAX;
  };
  std::vector<Node> nodes;
  std::vector<TextSymbol> path;
  std::string text;
  size_t lost = 0;                   ///< bytes that no token represents
  const char* first_lost = nullptr;  ///< the first of them

  void lose(std::string_view bytes) {
    if (lost == 0) first_lost = bytes.data();
    lost += bytes.size();
  }
};

/// Limits the number of vocabulary look-ups for one word, because tokens in an untrusted file can
/// have any length.
class LookUps {
 public:
  explicit LookUps(std::string_view word) : bytes_(word.size()), left_(kRoom + kEach * bytes_) {}

  /// Counts a look-up of `length` bytes. Throws kLimit if the limit is exceeded.
  void add(size_t length) {
    const size_t cost = 1 + length / 64;
    if (cost > left_) fail();
    left_ -= cost;
  }

 private:
  // Tokens of real vocabularies have fewer than 100 bytes, which bounds the look-ups per byte of
  // text.
  static constexpr size_t kEach = 256, kRoom = 1'000'000;
  [[noreturn]] void fail() const;
  size_t bytes_, left_;
};

/// BPE with ranked merges.
class BpeModel {
 public:
  struct Options {
    std::string unknown;        ///< token for unknown characters; empty: they are dropped
    std::string prefix;         ///< before every character except the first of a word
    std::string suffix;         ///< after the last character of a word
    bool fuse_unknown = false;  ///< adjacent unknown characters become one token
    bool byte_fallback = false;
    bool ignore_merges = false;  ///< a word that is a token is not split by merges
  };
  /// Throws kFormat if a merge or the unknown token is not in the vocabulary, and kLimit if prefix
  /// or suffix are too long.
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary, std::span<const MergeText> merges,
           Options options);

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& out) const;

  /// Calls `visit` with parts of `word` that can be encoded independently, since no merge crosses
  /// their borders.
  template <typename Visit>
  void for_each_part(std::string_view word, const Visit& visit) const {
    size_t begin = 0;
    while (begin < word.size()) {
      const size_t end = cuts_at_marks_ ? next_cut(word, begin) : word.size();
      visit(word.substr(begin, end - begin));
      begin = end;
    }
  }

 private:
  void start_symbols(std::string_view word, ModelScratch& scratch) const;
  int32_t character_id(std::string_view character, bool first, bool last, std::string& text) const;
  void find_cuts();
  size_t next_cut(std::string_view word, size_t begin) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  Options options_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};  // by byte (byte-level) or by ASCII character (otherwise)
  std::array<int32_t, 256> fallback_ids_{};
  int32_t unknown_ = -1;
  bool has_affixes_ = false, cuts_at_marks_ = false;
  std::bitset<256> ends_before_mark_;     // last bytes of the characters in before_mark_
  std::vector<std::string> before_mark_;  // characters before a mark inside a token, sorted
};

/// Unigram language model: the most probable segmentation with independent token probabilities.
class UnigramModel {
 public:
  /// `scores`: log probability of each token. `unknown`: -1 if unknown characters are dropped.
  UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
               int32_t unknown, bool byte_fallback);

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& out) const;

 private:
  size_t longest_from(std::string_view rest) const;
  void find_best(std::string_view word, std::vector<ModelScratch::Node>& nodes) const;
  void append(std::string_view text, int32_t id, ModelScratch& scratch,
              std::vector<int32_t>& out) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;
  std::vector<uint16_t> longest_;  // longest token in bytes, by hash of its first three bytes
  double unknown_score_ = 0;
  int32_t unknown_;
  bool byte_fallback_;
  std::array<int32_t, 256> fallback_ids_{};
};

/// Greedy longest-match segmentation of a word (BERT).
class WordPieceModel {
 public:
  struct Options {
    std::string unknown = "[UNK]";
    std::string prefix = "##";  ///< prefix of tokens inside a word
    size_t longest_word = 100;  ///< in characters; longer words become the unknown token
  };
  WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, Options options);

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& out) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Options options_;
  int32_t unknown_;
};

/// Each word is one token or the unknown token.
class WordLevelModel {
 public:
  WordLevelModel(std::shared_ptr<const Vocabulary> vocabulary, std::string_view unknown);

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& out) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  int32_t unknown_;
};

using WordModel = std::variant<BpeModel, UnigramModel, WordPieceModel, WordLevelModel>;

}  // namespace veery
