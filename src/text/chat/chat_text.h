// chat_text.h: variables of chat templates, and tokenisation of rendered prompts.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace veery {

/// Returns {"bos_token": "<s>", ...} for those of bos, eos, unk and pad that the tokenizer has, as
/// transformers does.
Json special_token_variables(const Tokenizer& tokenizer);

/// Returns the variables that transformers passes to a template: messages (see
/// template_messages()), tools and documents (null), add_generation_prompt and the special tokens.
/// Members of `more` (an object or null) replace or add variables.
Json template_variables(const Json& special_tokens, const Json& messages,
                        bool add_generation_prompt, const Json& more = nullptr);

/// Tokenises a prompt that the model continues: exactly one BOS if the model uses it, even if the
/// text already begins with one, and no EOS. `lost`, if not null, counts bytes that no token can
/// represent. `guard`: see EncodeOptions::guard.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   LostBytes* lost = nullptr, std::string_view guard = {});

}  // namespace veery
