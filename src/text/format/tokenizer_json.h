// tokenizer_json.h: reads tokenizer.json files of Hugging Face.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace veery {

/// Added tokens from the files beside a tokenizer.json. New tokens get the next free ids.
struct TokensBeside {
  std::vector<AddedToken> listed;  ///< override the flags of tokens in tokenizer.json
  std::vector<AddedToken> named;   ///< special tokens; added only if they are in no list
};

/// Reads a tokenizer.json; `what` names it in messages. Throws kFormat naming the location,
/// kUnsupported naming an unknown component, and kLimit for ids that are far too large.
Pipeline read_tokenizer_json(const JsonText& text, const std::string& what,
                             const TokensBeside& beside = {});

/// Returns the id of a token.
std::optional<int32_t> find_token(const Pipeline& pipeline, std::string_view text);

/// Returns BOS and EOS as the post-processor adds them.
Metadata roles_of(const Pipeline& pipeline);

}  // namespace veery
