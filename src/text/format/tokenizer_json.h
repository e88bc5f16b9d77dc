// tokenizer_json.h: reads the tokenizer.json files of Hugging Face.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json_reader.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace veery {

/// Parts from the text of a tokenizer.json; `what` names it in messages. Throws kFormat naming the
/// place, kUnsupported naming a component that is not known, kLimit for absurd ids.
Pipeline read_tokenizer_json(const JsonText& text, const std::string& what);

/// The id of a token in the parts of a tokenizer.
std::optional<int32_t> find_token(const Pipeline& pipeline, std::string_view text);

/// BOS, EOS as the post-processor adds them.
TokenRoles roles_of(const Pipeline& pipeline);

}  // namespace veery
