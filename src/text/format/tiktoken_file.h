// tiktoken_file.h: vocabulary files of tiktoken: lines of a base64 token and its rank.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/pipeline_tokenizer.h"
#include "text/subword/merge_table.h"

namespace veery {

/// Returns whether the first line is base64, a space and a number.
bool is_tiktoken(std::string_view text);

/// A tiktoken vocabulary in the byte alphabet, by rank.
struct TiktokenModel {
  std::vector<std::string> tokens;
  std::string_view rule;  ///< value of tokenizer.ggml.pre, which selects the pre-tokenizer
};

/// Reads a tiktoken file. The file does not specify the pre-tokenizer, so it is inferred from the
/// number of ranks. Throws kFormat naming the line, and kUnsupported for an unknown number of
/// ranks.
TiktokenModel read_tiktoken(std::string_view text, const std::string& what);

/// Returns merges: any two tokens whose concatenation is a token, at the rank of that token. The
/// texts are views into `model`.
std::vector<MergeText> tiktoken_merges(const TiktokenModel& model, const Vocabulary& vocabulary);

Pipeline tiktoken_pipeline(const TiktokenModel& model, std::vector<AddedToken> added);

}  // namespace veery
