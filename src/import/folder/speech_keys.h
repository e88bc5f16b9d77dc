// speech_keys.h: reads decoding settings of speech models from generation_config.json.
#pragma once
#include "base/json.h"
#include "file/model_file.h"

namespace veery {

/// Metadata keys, all optional: ids of tokens that are never sampled, or not as the first token;
/// the limit of the first timestamp; whether the model is multilingual; the alignment heads as
/// layer, head, layer, head ...
inline constexpr const char* kSuppressKey = "whisper.suppress_tokens";
inline constexpr const char* kSuppressFirstKey = "whisper.begin_suppress_tokens";
inline constexpr const char* kFirstTimeKey = "whisper.max_initial_timestamp_index";
inline constexpr const char* kMultilingualKey = "whisper.is_multilingual";
inline constexpr const char* kAlignmentKey = "whisper.alignment_heads";

/// Copies these settings to `metadata`. `where` names the file in messages. Throws kFormat naming
/// an invalid list.
void read_speech_keys(const Json& config, const std::string& where, Metadata& metadata);

}  // namespace veery
