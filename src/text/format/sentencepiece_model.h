// sentencepiece_model.h: what a SentencePiece model says, from its own file or from GGUF metadata.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace veery {

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2 };
  Kind kind = Kind::kUnigram;
  std::vector<std::string> tokens;
  std::vector<double> scores;    // one each
  std::vector<TokenType> types;  // one each
  std::string charsmap;          ///< empty: characters stay as they are
  bool add_prefix = true;        ///< a space before the text
  bool remove_extra = true;      ///< runs of spaces become one, those at the ends none
  int32_t unknown = 0, bos = 1, eos = 2, pad = -1;

  /// Puts a token that other files name at its id. Throws kLimit for an absurd one.
  void add(const AddedToken& token);
};

/// From the bytes of a `tokenizer.model` (protobuf). Throws kFormat naming `what` and the place,
/// kUnsupported for models of words or characters.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& what);

/// From tokenizer.ggml.* of a file whose tokenizer.ggml.model is "t5". Throws kFormat naming the
/// key.
SentencePieceModel read_sentencepiece(const Metadata& metadata);

/// Those of the tokens that text may become; the others have the lowest of these.
std::vector<double> unigram_scores(const SentencePieceModel& model);

/// Control tokens are found only as special tokens, the user's also in plain text. Nothing is
/// added around the text.
Pipeline unigram_pipeline(const SentencePieceModel& model);

/// tokenizer.ggml.* as the model would have them in a GGUF file; the texts are views of `model`.
Metadata sentencepiece_metadata(const SentencePieceModel& model);

/// As tokenizer.ggml.model "bert" wants it: words begin with U+2581, other pieces do not.
Pipeline word_piece_pipeline(const Metadata& metadata);

/// How two texts become one: a EOS b EOS, where b and its EOS are a segment of their own (BERT), or
/// a EOS SEP b EOS, all one segment (XLM-R, and what llama.cpp makes of a query and a document).
/// SEP is there where separator_of() says so; where the file says nothing, if both BOS and EOS are.
enum class PairForm : uint8_t { kSegments, kSeparated };

/// BOS and EOS (-1: none) around a text, unless tokenizer.ggml.add_bos_token or .add_eos_token say
/// that they are not wanted.
PostProcessor special_around(const Metadata& metadata, int64_t bos, int64_t eos, PairForm form);

}  // namespace veery
