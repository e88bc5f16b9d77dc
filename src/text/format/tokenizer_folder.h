// tokenizer_folder.h: loads the tokenizer, special tokens and chat templates of a Hugging Face
// folder.
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

/// Returns the first of these files that exists in `folder`: tokenizer.json, tokenizer.model
/// (SentencePiece or tiktoken ranks) and its other names, *.tiktoken. Empty if there is none.
std::string find_tokenizer(const std::string& folder);

/// Returns `added_tokens_decoder` of tokenizer_config.json, {"128000": {"content": ...}}, ordered
/// by id. Throws kFormat, and kLimit for an id that is far too large.
std::vector<AddedToken> read_added_tokens(const std::string& folder);

/// Returns whether the name of a file may be that of a tokenizer file: *.json, *.model, *.tiktoken.
bool is_tokenizer_file(const std::string& path);

/// Loads a tokenizer from a file, or from a folder (see find_tokenizer()). The roles of special
/// tokens come from tokenizer_config.json, special_tokens_map.json, generation_config.json and
/// config.json beside it, if present. Throws kNotFound if there is no tokenizer, kFormat naming the
/// location, and kUnsupported naming an unknown component.
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::string& path);

/// Returns the chat templates of a folder, searched as in transformers: chat_template.jinja and
/// additional_chat_templates/NAME.jinja take precedence over chat_template.json and
/// tokenizer_config.json.
ChatTemplateSources load_chat_templates(const std::string& folder);

}  // namespace veery
