// tokenizer_json_write.h: converts the tokenizer of GGUF metadata to Hugging Face files.
#pragma once
#include <string>

#include "base/json.h"
#include "text/tokenizer.h"

namespace veery {

/// Returns a tokenizer.json for tokenizer.ggml.* of `file`. It gives the same ids for any text,
/// except for some texts with U+2581 at the start or beside spaces. Merges are derived from the
/// scores of SentencePiece BPE. Only the first of several equal tokens is written.
/// `tokenizer` is the tokenizer of the file. Throws as make_tokenizer(), kUnsupported naming a
/// tokenizer that tokenizer.json cannot represent or a token that is not UTF-8, and kLimit for a
/// token that is far too long.
std::string tokenizer_json(const ModelFile& file, const Tokenizer& tokenizer);

/// Returns tokenizer_config.json: roles of special tokens, tokens added around a text, chat
/// templates.
Json tokenizer_config(const ModelFile& file, const Tokenizer& tokenizer);

}  // namespace veery
