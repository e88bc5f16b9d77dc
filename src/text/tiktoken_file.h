// tiktoken_file.h: vocabularies written as lines of base64 and rank.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline_tokenizer.h"

namespace veery {

/// The first line is base64, a space and a number.
bool is_tiktoken(std::string_view text);

/// Such files do not say how text is cut into words; that is told by the number of their ranks.
/// Throws kFormat naming the line, kUnsupported for a number that is not known.
Pipeline read_tiktoken(std::string_view text, const std::string& what,
                       std::vector<AddedToken> added);

}  // namespace veery
