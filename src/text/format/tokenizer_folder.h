// tokenizer_folder.h: what the files beside Hugging Face weights say about text: tokenizer, special
// tokens, chat templates.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/template_sources.h"
#include "text/tokenizer.h"

namespace veery {

/// The first of tokenizer.json, tokenizer.model (SentencePiece or tiktoken ranks) and its other
/// names, *.tiktoken that is in `folder`; empty if none is.
std::string find_tokenizer(const std::string& folder);

/// The `added_tokens_decoder` of tokenizer_config.json, {"128000": {"content": ...}}, by id. Throws
/// kFormat, kLimit for an absurd id.
std::vector<AddedToken> read_added_tokens(const std::string& folder);

/// Whether the name of a file is one that a tokenizer's may have: *.json, *.model, *.tiktoken.
bool is_tokenizer_file(const std::string& path);

/// From `path`, a file of a tokenizer or a folder: that of find_tokenizer() in it. Roles of special
/// tokens are taken from tokenizer_config.json, special_tokens_map.json, generation_config.json and
/// config.json beside it, where these are there. Throws kNotFound if there is no tokenizer, kFormat
/// naming the place, kUnsupported naming a component that is not known.
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::string& path);

/// Templates of a folder, as transformers finds them: chat_template.jinja and
/// additional_chat_templates/NAME.jinja; where a name has none there, that of chat_template.json
/// or tokenizer_config.json.
ChatTemplateSources load_chat_templates(const std::string& folder);

}  // namespace veery
