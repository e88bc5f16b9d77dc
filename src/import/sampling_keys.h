// sampling_keys.h: how containers call the numbers of a way to sample.
#pragma once
#include <string_view>
#include <utility>

namespace veery {

/// What generation_config.json calls the numbers of GGUF that recommend a way to sample; top_k, a
/// whole one, has the same name.
inline constexpr std::pair<std::string_view, std::string_view> kSamplingKeys[] = {
    {"temperature", "general.sampling.temp"},
    {"top_p", "general.sampling.top_p"},
    {"min_p", "general.sampling.min_p"},
    {"repetition_penalty", "general.sampling.penalty_repeat"}};

}  // namespace veery
