// tokenizer.h: text <-> token ids.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"

namespace veery {

struct EncodeOptions {
  bool add_special = true;    ///< BOS/EOS as the model wants them
  bool parse_special = true;  ///< special tokens written in the text become their ids
};

/// Immutable and safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;

  /// The bytes that a token stands for (may be part of a UTF-8 sequence). Control tokens give nothing unless
  /// `special`. Throws kInput if `id` is out of range.
  virtual std::string piece(int32_t id, bool special = false) const = 0;

  /// The text of a sequence, bytes joined as the model's decoder does it (a leading space that the tokenizer
  /// itself adds is taken away).
  virtual std::string decode(const std::vector<int32_t>& ids, bool special = false) const = 0;

  /// A token written in the vocabulary, "<|im_end|>"; absent if there is none.
  virtual std::optional<int32_t> find(std::string_view token) const = 0;

  struct Special {
    int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;  ///< -1: none
    bool add_bos = false, add_eos = false;
    std::vector<int32_t> ends;  ///< ids that end an answer (eos, eot, eom, <|im_end|>, <end_of_turn> ...)
  };
  const Special& special() const { return special_; }
  int32_t size() const { return size_; }
  bool ends(int32_t id) const;
  /// The token as written in the vocabulary.
  virtual std::string token(int32_t id) const = 0;

 protected:
  Special special_;
  int32_t size_ = 0;
};

/// From `tokenizer.ggml.*`. Throws kUnsupported naming tokenizer.ggml.model or .pre if it is not known.
/// The result keeps views into the file's mappings and shares their ownership.
std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file);

/// Streams text: push() returns what can be shown now and never splits a UTF-8 sequence; malformed bytes
/// become U+FFFD.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false);
  std::string push(int32_t id);
  std::string finish();  ///< what was held back

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string held_;
  bool first_ = true;
};

}  // namespace veery
