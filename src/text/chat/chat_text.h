// chat_text.h: the variables of chat templates, and the ids of what they write.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace veery {

/// {"bos_token": "<s>", ...}: those of bos, eos, unk and pad that the tokenizer has, as
/// transformers passes them.
Json special_token_variables(const Tokenizer& tokenizer);

/// All that transformers passes to a template: `messages` (by template_messages()), tools and
/// documents (null), add_generation_prompt and the special tokens. A member of `more` (an object,
/// or null) replaces or adds a variable.
Json template_variables(const Json& special_tokens, const Json& messages,
                        bool add_generation_prompt, const Json& more = nullptr);

/// Ids of a text that is to be continued: one BOS if the model wants it, also where the text has
/// one written at its front, and no EOS. What becomes no token is counted in `lost`, if there is
/// one. `guard`: EncodeOptions::guard.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   LostBytes* lost = nullptr, std::string_view guard = {});

}  // namespace veery
