// sentence_config.h: how a model's texts become embeddings or scores, whatever container says so.
#pragma once
#include <string>
#include <string_view>

#include "import/folder/sentence_folder.h"
#include "model/arch/entry.h"

namespace veery {

/// "cls", "mean", "last", "max", "mean-sqrt-len", "weighted-mean", "none".
std::string_view name(PoolingKind kind);
/// Throws kInput naming those that there are.
PoolingKind pooling_from_name(std::string_view name);
/// What a definition does for it; absent for kNone.
std::optional<Pooling> pooling_of(PoolingKind kind);

/// What the files say, and what is made of it in a graph.
struct SentenceSetup {
  SentenceConfig files;
  EmbeddingConfig embedding;
  ScoreConfig score;
  bool sigmoid = false;  ///< scores are sigmoids of what the head gives
  /// A decoder that is asked in the form of Qwen3-Reranker whether the document answers the query:
  /// its head gives a score, or two, of "yes" and "no".
  bool yes_no = false;
};

/// Adds the tensors of dense layers to `file` under the names of EmbeddingConfig. Where the files
/// say nothing, an encoder's rows are averaged, a decoder's last row is taken, and embeddings have
/// length 1. Throws as read_sentence_folder(), and kFormat naming both widths where a layer does
/// not take what comes before it.
SentenceSetup read_sentence_setup(ModelFile& file, const TransformerConfig& config);

/// Whether the files are those of a model for scores: a head for them, LogitScore of modules.json,
/// or the card of Qwen3-Reranker (README.md), whose other files are those of a decoder.
bool makes_scores(const ModelFile& file, const TransformerConfig& config);

}  // namespace veery
