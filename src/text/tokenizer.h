// tokenizer.h: interface of tokenizers: text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"
#include "text/sequence_template.h"

namespace veery {

/// Bytes of a text that the vocabulary cannot represent and that are dropped.
struct LostBytes {
  size_t count = 0;
  /// Byte offset of the first one. If Unicode normalisation rewrote that part of the text, the
  /// offset is that of the beginning of the part.
  size_t first = 0;

  void add(size_t bytes, size_t at) {
    if (count == 0) first = at;
    count += bytes;
  }
};

struct EncodeOptions {
  bool add_special = true;    ///< adds the model's BOS/EOS
  bool parse_special = true;  ///< converts special tokens written in the text to their ids
  LostBytes* lost = nullptr;  ///< counts dropped bytes, unless null
  /// No special token is matched across occurrences of this text, which are then dropped (see
  /// ControlGuard); empty: no guard.
  std::string_view guard = {};
  /// Maximum number of ids including special tokens; 0: unlimited. As in transformers, the
  /// `truncation` field of a tokenizer.json has no effect: it is a setting of whoever saved the
  /// file.
  size_t max_tokens = 0;
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;  ///< if max_tokens > 0
};

/// Converts text to token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Tokenises `text`. Never fails on malformed UTF-8: such bytes become byte tokens, or are
  /// dropped if the vocabulary has neither byte tokens nor an unknown token. The text is truncated
  /// to options.max_tokens, keeping the special tokens. Throws kInput if these alone exceed the
  /// limit.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Like encode(), with segment ids and the number of truncated tokens.
  Encoding encode_text(std::string_view text, const EncodeOptions& options = {}) const;

  /// Tokenises a pair of texts, as cross-encoders take query and document. Offsets in options.lost
  /// count through the first text and then the second. Throws as encode(), kInput if the strategy
  /// would have to remove a whole text, and kUnsupported if the tokenizer does not support pairs.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  /// Returns the bytes of a token (possibly part of a UTF-8 sequence). Control and unknown tokens
  /// are empty unless `special`. Throws kInput if `id` is out of range.
  virtual std::string piece(int32_t id, bool special = false) const = 0;

  /// The same for the first token of a text: without the leading space that separates it from
  /// preceding text.
  virtual std::string first_piece(int32_t id, bool special = false) const;

  /// Returns the text of a sequence as the model's decoder joins it, without the leading space that
  /// the tokenizer adds.
  virtual std::string decode(const std::vector<int32_t>& ids, bool special = false) const = 0;

  /// Returns the id of a token as written in the vocabulary ("<|im_end|>"), if it exists.
  virtual std::optional<int32_t> find(std::string_view token) const = 0;

  struct Special {
    int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;  ///< -1: none
    bool add_bos = false, add_eos = false;
    std::vector<int32_t> ends;  ///< ids that end an answer (eos, eot, eom ...), ascending
  };
  const Special& special() const { return special_; }
  /// Returns the texts of tokens that structure a prompt: control and unknown tokens, and tokens
  /// that end an answer or mark its parts whatever their type.
  const std::vector<std::string>& control_tokens() const { return controls_; }
  int32_t size() const { return size_; }
  bool ends(int32_t id) const;
  /// Whether encode() puts a space before the text, so that decode() drops one.
  bool adds_space() const { return adds_space_; }
  /// Returns the token as written in the vocabulary.
  virtual std::string token(int32_t id) const = 0;

 protected:
  /// Returns the ids of a text without special tokens around it and without truncation. Ignores
  /// options.add_special and the limits.
  virtual std::vector<int32_t> encode_alone(std::string_view text,
                                            const EncodeOptions& options) const = 0;

  Special special_;
  std::vector<std::string> controls_;
  int32_t size_ = 0;
  bool adds_space_ = false;
  SequenceTemplate template_;
  bool keeps_end_ = false;  ///< truncation removes the beginning of texts

 private:
  Truncation truncation_by(const EncodeOptions& options, size_t special) const;
};

/// Creates a tokenizer from `tokenizer.ggml.*`. Throws kUnsupported for an unknown
/// tokenizer.ggml.model or .pre and kFormat for lists of inconsistent length. The result does not
/// refer to `file`.
std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file);

/// Incremental decoder. push() returns complete UTF-8 sequences only; malformed bytes become
/// U+FFFD. The concatenated parts equal the decoded text, except for the number of U+FFFD where
/// byte tokens are malformed, and for decoders that depend on neighbouring tokens (CTC; a trailing
/// space).
class Detokenizer {
 public:
  /// `goes_on`: the ids continue other text, so that a leading space is kept.
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false, bool goes_on = false);
  std::string push(int32_t id) { return push(id, special_); }
  /// `special`: whether this token is shown if it is special.
  std::string push(int32_t id, bool special);
  std::string finish();  ///< returns the bytes held back

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string held_;
  bool first_;
};

}  // namespace veery
