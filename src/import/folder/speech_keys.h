// speech_keys.h: what generation_config.json says of how a model of speech is led.
#pragma once
#include "base/json.h"
#include "file/model_file.h"

namespace veery {

/// Keys of metadata, all optional: ids of tokens that are never or not at first chosen, the
/// positions that the first time may be at, whether there are languages to choose from, and the
/// heads of the decoder that follow the sound, as layer, head, layer, head ...
inline constexpr const char* kSuppressKey = "whisper.suppress_tokens";
inline constexpr const char* kSuppressFirstKey = "whisper.begin_suppress_tokens";
inline constexpr const char* kFirstTimeKey = "whisper.max_initial_timestamp_index";
inline constexpr const char* kMultilingualKey = "whisper.is_multilingual";
inline constexpr const char* kAlignmentKey = "whisper.alignment_heads";

/// Copies them. `where`: the file, for messages. Throws kFormat naming what is no such list.
void read_speech_keys(const Json& config, const std::string& where, Metadata& metadata);

}  // namespace veery
