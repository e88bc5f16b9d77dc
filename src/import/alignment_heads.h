// alignment_heads.h: the heads of Whisper's decoders that follow the sound, for files that do not
// say.
#pragma once
#include <cstdint>
#include <vector>

namespace veery {

/// What tells OpenAI's models apart.
struct SpeechShape {
  int64_t layers = 0, heads = 0;  ///< of the decoder
  int64_t bands = 0;
  bool multilingual = false;
};

/// Layer, head, layer, head ... Those that OpenAI's code has for its models (tiny, base, small,
/// medium, large-v3, large-v3-turbo); for any other shape, and for that of large-v1 and v2, which
/// are alike, what it takes where it knows none: all heads of the last half of the layers.
std::vector<int64_t> usual_alignment_heads(const SpeechShape& shape);

}  // namespace veery
