// no_tokenizer.h: stands for the tokenizer of a model that has none: only ids can be used.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace veery {

/// Has no tokens. encode() throws kNotFound with `reason`; decode() gives nothing.
std::unique_ptr<Tokenizer> make_no_tokenizer(std::string reason);

}  // namespace veery
