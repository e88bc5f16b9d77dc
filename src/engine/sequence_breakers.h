// sequence_breakers.h: the tokens at which the DRY penalty ends a repetition.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace veery {

/// Returns newline, colon, quotation mark and star, as in the first implementation of DRY.
std::vector<std::string> usual_sequence_breakers();

/// Returns for each id of the vocabulary whether its text contains one of `texts`, for
/// SamplerOptions::dry_breakers; nullptr if `texts` is empty.
std::shared_ptr<const std::vector<bool>> sequence_breakers(const Tokenizer& tokenizer,
                                                           int64_t vocab,
                                                           std::span<const std::string> texts);

}  // namespace veery
