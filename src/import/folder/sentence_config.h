// sentence_config.h: how texts become embeddings or scores, independent of the container.
#pragma once
#include <string>
#include <string_view>

#include "import/folder/sentence_folder.h"
#include "model/arch/entry.h"

namespace veery {

/// Returns "cls", "mean", "last", "max", "mean-sqrt-len", "weighted-mean" or "none".
std::string_view name(PoolingKind kind);
/// Throws kInput listing the valid names.
PoolingKind pooling_from_name(std::string_view name);
/// Returns the pooling that a definition performs; nullopt for kNone.
std::optional<Pooling> pooling_of(PoolingKind kind);

/// The settings in the files, and the resulting configuration of a graph.
struct SentenceSetup {
  SentenceConfig files;
  EmbeddingConfig embedding;
  ScoreConfig score;
  bool sigmoid = false;  ///< scores are sigmoids of the head's output
  /// A decoder that is prompted in the format of Qwen3-Reranker whether the document answers the
  /// query. Its head returns a score, or the two logits of "yes" and "no".
  bool yes_no = false;
};

/// Adds the tensors of dense layers to `file` under the names of EmbeddingConfig. Defaults: mean
/// pooling for encoders, last-token pooling for decoders, embeddings normalised to length 1. Throws
/// as read_sentence_folder(), and kFormat naming both widths if a dense layer does not match its
/// input.
SentenceSetup read_sentence_setup(ModelFile& file, const TransformerConfig& config);

/// Returns whether the files describe a scoring model: a head for scores, LogitScore in
/// modules.json, or the model card of Qwen3-Reranker (README.md), which otherwise looks like any
/// decoder.
bool makes_scores(const ModelFile& file, const TransformerConfig& config);

}  // namespace veery
