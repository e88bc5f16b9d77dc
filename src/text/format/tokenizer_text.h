// tokenizer_text.h: the parsed content of a tokenizer.json, before a tokenizer is created from it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_reader.h"
#include "text/pipeline/added_tokens.h"
#include "text/subword/merge_table.h"

namespace veery {

/// The member `model`. Texts are views into the file or its reader.
struct TokenModelText {
  struct Scored {
    std::string_view token;
    double score;
  };
  std::string type, unknown, prefix, suffix;
  bool has_prefix = false, has_merges = false;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  int64_t longest_word = 100, unknown_id = -1;
  std::vector<std::pair<std::string_view, int64_t>> vocab;
  std::vector<Scored> scored;
  bool has_vocab = false, has_scores = false;
  std::vector<MergeText> merges;
};

/// All members. The constructor's `text` must outlive the object.
class TokenizerText {
 public:
  /// Throws kFormat, naming `what` and the location.
  TokenizerText(const JsonText& text, const std::string& what);

  TokenModelText model;
  std::vector<AddedToken> added;  ///< without ids
  Json normalizer, pre_tokenizer, post_processor, decoder, truncation;

 private:
  JsonReader reader_;
};

}  // namespace veery
