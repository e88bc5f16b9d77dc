// sentencepiece_model.h: SentencePiece models, read from their own file format or GGUF metadata.
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
  std::vector<double> scores;    // one per token
  std::vector<TokenType> types;  // one per token
  std::string charsmap;          ///< precompiled character map; empty: none
  bool add_prefix = true;        ///< adds a space before the text
  bool remove_extra = true;      ///< collapses runs of spaces and strips those at the ends
  int32_t unknown = 0, bos = 1, eos = 2, pad = -1;

  /// Sets the token with an id given by another file. Throws kLimit if the id is far too large.
  void add(const AddedToken& token);
};

/// Reads a `tokenizer.model` (protobuf). Throws kFormat, naming `what` and the position, and
/// kUnsupported for word and character models.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& what);

/// Reads tokenizer.ggml.* of a file whose tokenizer.ggml.model is "t5". Throws kFormat naming the
/// key.
SentencePieceModel read_sentencepiece(const Metadata& metadata);

/// Returns the scores of tokens that text may become; other tokens get the lowest of these.
std::vector<double> unigram_scores(const SentencePieceModel& model);

/// Creates the tokenizer pipeline of a unigram model. Control tokens match only as special tokens,
/// user-defined tokens also in plain text. Adds no tokens around a text.
Pipeline unigram_pipeline(const SentencePieceModel& model);

/// Returns the model as tokenizer.ggml.* metadata. The texts are views into `model`.
Metadata sentencepiece_metadata(const SentencePieceModel& model);

/// Creates the pipeline for tokenizer.ggml.model "bert": words begin with U+2581, other pieces do
/// not.
Pipeline word_piece_pipeline(const Metadata& metadata);

/// How a pair of texts is encoded: a EOS b EOS, where b and its EOS form a second segment (BERT);
/// or a EOS SEP b EOS in one segment (XLM-R, and llama.cpp for query and document). SEP is added as
/// separator_of() says; its default is to add it if both BOS and EOS exist.
enum class PairForm : uint8_t { kSegments, kSeparated };

/// Returns a post-processor that adds BOS and EOS (-1: none) around a text, unless
/// tokenizer.ggml.add_bos_token or .add_eos_token disables it.
PostProcessor special_around(const Metadata& metadata, int64_t bos, int64_t eos, PairForm form);

}  // namespace veery
