// infill.h: prompts for text between two others (fill in the middle, arXiv:2207.14255).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"

namespace veery {

/// Another file that is shown before the one that is completed.
struct InfillFile {
  std::string name, text;
};

/// Token ids by which a model is asked for a middle.
struct InfillTokens {
  int32_t prefix = -1, suffix = -1;
  int32_t middle = -1;        ///< -1: the model needs none
  int32_t file = -1;          ///< stands before the name of a file; -1: none
  bool suffix_first = false;  ///< suffix, then prefix (Codestral)
};

/// From tokenizer.ggml.fim_*_token_id, otherwise by the names that families of models give such
/// tokens; nothing if the vocabulary has none.
std::optional<InfillTokens> find_infill_tokens(const Model& model);

/// The prompt for what stands between `prefix` and `suffix`, and begins with `begun`. Control
/// tokens in these texts are text. Throws kUnsupported if the vocabulary has no such tokens.
std::vector<int32_t> infill_prompt(const Model& model, std::string_view prefix,
                                   std::string_view suffix, std::span<const InfillFile> files = {},
                                   std::string_view begun = {});

}  // namespace veery
