// infill.h: fill-in-the-middle prompts (arXiv:2207.14255).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"

namespace veery {

/// Another file, shown before the one that is completed.
struct InfillFile {
  std::string name, text;
};

/// Ids of the fill-in-the-middle tokens of a model.
struct InfillTokens {
  int32_t prefix = -1, suffix = -1;
  int32_t middle = -1;        ///< -1: the model needs none
  int32_t file = -1;          ///< before the name of a file; -1: none
  bool suffix_first = false;  ///< the suffix comes before the prefix (Codestral)
};

/// Finds the tokens by tokenizer.ggml.fim_*_token_id, else by the names that model families use.
/// Returns nothing if the vocabulary has none.
std::optional<InfillTokens> find_infill_tokens(const Model& model);

/// Returns the prompt for the text between `prefix` and `suffix`. `begun`: the part of that text
/// that is already written; the answer continues it. Control tokens in these texts are text. Throws
/// kUnsupported if the vocabulary has no fill-in-the-middle tokens.
std::vector<int32_t> infill_prompt(const Model& model, std::string_view prefix,
                                   std::string_view suffix, std::span<const InfillFile> files = {},
                                   std::string_view begun = {});

}  // namespace veery
