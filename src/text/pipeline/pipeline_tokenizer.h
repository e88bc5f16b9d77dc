// pipeline_tokenizer.h: a tokenizer composed of the components of a tokenizer.json.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/pipeline/post_processor.h"
#include "text/pipeline/token_decoder.h"
#include "text/split/normalizer.h"
#include "text/split/splitter.h"
#include "text/subword/word_model.h"
#include "text/tokenizer.h"

namespace veery {

struct Pipeline {
  std::shared_ptr<const Vocabulary> vocabulary;  ///< tokens of the model
  WordModel model;
  AddedTokens added;  ///< their ids may be inside the vocabulary or follow it
  Normalizer normalizer;
  Splitter splitter;
  PostProcessor post;
  TokenDecoder decoder;
  bool keeps_end = false;  ///< truncation removes the beginning of texts
};

/// Encodes with added tokens, normalizer, splitter, model and post-processor; decodes with the
/// decoder.
class PipelineTokenizer final : public Tokenizer {
 public:
  /// `roles`: input of resolve_special(). Throws kFormat if a role or the post-processor refers to
  /// an id outside the vocabulary.
  PipelineTokenizer(Pipeline pipeline, const Metadata& roles);

  std::string piece(int32_t id, bool special) const override;
  std::string first_piece(int32_t id, bool special) const override;
  std::string decode(const std::vector<int32_t>& ids, bool special) const override;
  std::optional<int32_t> find(std::string_view token) const override;
  std::string token(int32_t id) const override;

 protected:
  std::vector<int32_t> encode_alone(std::string_view text,
                                    const EncodeOptions& options) const override;

 private:
  struct Work;
  void encode_gap(std::string_view gap, bool first, Work& work) const;
  void encode_words(const Piece& piece, Work& work) const;
  void encode_word(std::string_view word, Work& work) const;
  void resolve_roles(const Metadata& roles);
  void check(int32_t id) const;
  bool is_shown(int32_t id, bool special) const;
  std::string piece_at(int32_t id, bool special, bool first) const;

  Pipeline parts_;
  std::unordered_map<int32_t, uint32_t> added_by_id_;
  std::unordered_map<std::string, int32_t> added_by_text_;
  std::vector<bool> hidden_;  // by id: not part of decoded text
};

}  // namespace veery
