// tokenizer.h: text <-> token ids.
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

/// Bytes of a text that became no token, because the vocabulary has none for them.
struct LostBytes {
  size_t count = 0;
  /// Where the first one stands in the text; where its part of the text is rewritten before it is
  /// looked up (Unicode's normal forms), the beginning of that part.
  size_t first = 0;

  void add(size_t bytes, size_t at) {
    if (count == 0) first = at;
    count += bytes;
  }
};

struct EncodeOptions {
  bool add_special = true;    ///< BOS/EOS as the model wants them
  bool parse_special = true;  ///< special tokens written in the text become their ids
  LostBytes* lost = nullptr;  ///< what vanishes is counted here, if it is wanted
  /// No special token is found across this text, which itself is dropped (ControlGuard); empty:
  /// none.
  std::string_view guard = {};
  /// The most ids, special tokens included; 0: any number. As in transformers, the `truncation` of
  /// a tokenizer.json bounds nothing: it is a setting of whoever saved the file.
  size_t max_tokens = 0;
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;  ///< beside max_tokens
};

/// Immutable and safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Never fails on malformed UTF-8: such bytes become byte tokens (or nothing where a vocabulary
  /// has neither byte tokens nor an unknown token).
  /// What is beyond the greatest length is cut off the text; special tokens around it stay. Throws
  /// kInput if options.max_tokens has no room for these alone.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The same with segments, and with how much was cut off.
  Encoding encode_text(std::string_view text, const EncodeOptions& options = {}) const;

  /// Two texts as one sequence, as cross-encoders take a query and a document. options.lost counts
  /// through the first text and then the second. Throws as above, kInput if the one text that the
  /// strategy cuts would have to vanish, kUnsupported if the tokenizer has no form for two.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  /// The bytes that a token stands for (may be part of a UTF-8 sequence). Control and unknown
  /// tokens give nothing unless `special`. Throws kInput if `id` is out of range.
  virtual std::string piece(int32_t id, bool special = false) const = 0;

  /// The same where the token is the first one of a text: without the space that stands between
  /// it and what is not there.
  virtual std::string first_piece(int32_t id, bool special = false) const;

  /// The text of a sequence, bytes joined as the model's decoder does it (a leading space that the
  /// tokenizer itself adds is taken away).
  virtual std::string decode(const std::vector<int32_t>& ids, bool special = false) const = 0;

  /// A token written in the vocabulary, "<|im_end|>"; absent if there is none.
  virtual std::optional<int32_t> find(std::string_view token) const = 0;

  struct Special {
    int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;  ///< -1: none
    bool add_bos = false, add_eos = false;
    std::vector<int32_t> ends;  ///< ids that end an answer (eos, eot, eom ...), ascending
  };
  const Special& special() const { return special_; }
  /// The texts of tokens that structure a prompt: control and unknown tokens, and those that end an
  /// answer or mark its parts, whatever their type.
  const std::vector<std::string>& control_tokens() const { return controls_; }
  int32_t size() const { return size_; }
  bool ends(int32_t id) const;
  /// encode() puts a space before the text, so decode() drops one.
  bool adds_space() const { return adds_space_; }
  /// The token as written in the vocabulary.
  virtual std::string token(int32_t id) const = 0;

 protected:
  /// The ids of a text alone, of any length; of `options`, add_special and those of lengths do not
  /// matter here.
  virtual std::vector<int32_t> encode_alone(std::string_view text,
                                            const EncodeOptions& options) const = 0;

  Special special_;
  std::vector<std::string> controls_;
  int32_t size_ = 0;
  bool adds_space_ = false;
  SequenceTemplate template_;
  bool keeps_end_ = false;  ///< cut texts lose their beginning

 private:
  Truncation truncation_by(const EncodeOptions& options, size_t special) const;
};

/// From `tokenizer.ggml.*`. Throws kUnsupported naming tokenizer.ggml.model or .pre if it is not
/// known, kFormat if the lists do not fit together. The result does not refer to `file`.
std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file);

/// Streams text: push() returns what can be shown now and never splits a UTF-8 sequence; malformed
/// bytes become U+FFFD. All parts joined are the decoded text, but for the number of U+FFFD where
/// byte tokens make none, and for decoders that look at the tokens beside (CTC; a last space).
class Detokenizer {
 public:
  /// `goes_on`: the ids follow other text, so that a leading space stays.
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false, bool goes_on = false);
  std::string push(int32_t id) { return push(id, special_); }
  /// `special`: whether this token is shown if it is a special one.
  std::string push(int32_t id, bool special);
  std::string finish();  ///< what was held back

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string held_;
  bool first_;
};

}  // namespace veery
