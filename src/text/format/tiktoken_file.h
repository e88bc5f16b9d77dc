// tiktoken_file.h: vocabularies written as lines of base64 and rank.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/pipeline_tokenizer.h"
#include "text/subword/merge_table.h"

namespace veery {

/// The first line is base64, a space and a number.
bool is_tiktoken(std::string_view text);

/// Such a vocabulary in the byte alphabet, by rank.
struct TiktokenModel {
  std::vector<std::string> tokens;
  std::string_view rule;  ///< of tokenizer.ggml.pre: how text is cut into words
};

/// Such files do not say how text is cut into words; that is told by the number of their ranks.
/// Throws kFormat naming the line, kUnsupported for a number that is not known.
TiktokenModel read_tiktoken(std::string_view text, const std::string& what);

/// Any two tokens that together are a token may merge, at the rank of that token. Views of `model`.
std::vector<MergeText> tiktoken_merges(const TiktokenModel& model, const Vocabulary& vocabulary);

Pipeline tiktoken_pipeline(const TiktokenModel& model, std::vector<AddedToken> added);

}  // namespace veery
