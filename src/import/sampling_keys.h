// sampling_keys.h: keys of recommended sampling settings.
#pragma once
#include <string_view>
#include <utility>

namespace veery {

/// The keys of generation_config.json and the GGUF keys of the same numbers. The integer top_k is
/// not in the table, because both containers use that name.
inline constexpr std::pair<std::string_view, std::string_view> kSamplingKeys[] = {
    {"temperature", "general.sampling.temp"},
    {"top_p", "general.sampling.top_p"},
    {"min_p", "general.sampling.min_p"},
    {"repetition_penalty", "general.sampling.penalty_repeat"}};

}  // namespace veery
