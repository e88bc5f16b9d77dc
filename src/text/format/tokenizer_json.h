// tokenizer_json.h: reads the tokenizer.json files of Hugging Face.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace veery {

/// Added tokens of the files beside a tokenizer.json. Those that are new get the next free ids.
struct TokensBeside {
  std::vector<AddedToken> listed;  ///< replace the flags of those that tokenizer.json has
  std::vector<AddedToken> named;   ///< special tokens; only those that are in no list are added
};

/// Parts from the text of a tokenizer.json; `what` names it in messages. Throws kFormat naming the
/// place, kUnsupported naming a component that is not known, kLimit for absurd ids.
Pipeline read_tokenizer_json(const JsonText& text, const std::string& what,
                             const TokensBeside& beside = {});

/// The id of a token in the parts of a tokenizer.
std::optional<int32_t> find_token(const Pipeline& pipeline, std::string_view text);

/// BOS, EOS as the post-processor adds them.
Metadata roles_of(const Pipeline& pipeline);

}  // namespace veery
