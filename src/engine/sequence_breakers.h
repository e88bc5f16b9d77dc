// sequence_breakers.h: the tokens at which repetitions end, for DRY.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace veery {

/// Newline, colon, quotation mark and star, as in the method's first implementation.
std::vector<std::string> usual_sequence_breakers();

/// For each id of the vocabulary whether its text holds one of `texts`, for
/// SamplerOptions::dry_breakers; nullptr where there are none.
std::shared_ptr<const std::vector<bool>> sequence_breakers(const Tokenizer& tokenizer,
                                                           int64_t vocab,
                                                           std::span<const std::string> texts);

}  // namespace veery
