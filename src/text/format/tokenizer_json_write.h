// tokenizer_json_write.h: the tokenizer of GGUF metadata as the files of Hugging Face.
#pragma once
#include <string>

#include "base/json.h"
#include "text/tokenizer.h"

namespace veery {

/// tokenizer.json for tokenizer.ggml.* of `file`, with the same ids of any text (but of some
/// with U+2581 at the beginning or beside spaces); merges are made of the scores of SentencePiece's
/// BPE. `tokenizer` is that of the file. Of equal tokens the first is written. Throws as
/// make_tokenizer, kUnsupported naming a tokenizer that has no such form, a token that is no UTF-8,
/// kLimit for an absurdly long one.
std::string tokenizer_json(const ModelFile& file, const Tokenizer& tokenizer);

/// tokenizer_config.json beside it: roles of special tokens, what stands around a text, chat
/// templates.
Json tokenizer_config(const ModelFile& file, const Tokenizer& tokenizer);

}  // namespace veery
