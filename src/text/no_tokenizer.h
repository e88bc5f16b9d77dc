// no_tokenizer.h: placeholder for the tokenizer of a model that has none; only token ids can be
// used.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace veery {

/// Returns a tokenizer without tokens. encode() throws kNotFound with `reason`; decode() returns
/// "".
std::unique_ptr<Tokenizer> make_no_tokenizer(std::string reason);

}  // namespace veery
