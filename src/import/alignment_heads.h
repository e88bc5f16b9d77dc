// alignment_heads.h: the alignment heads of Whisper's decoders, for files that do not list them.
#pragma once
#include <cstdint>
#include <vector>

namespace veery {

/// The sizes that identify OpenAI's models.
struct SpeechShape {
  int64_t layers = 0, heads = 0;  ///< of the decoder
  int64_t bands = 0;
  bool multilingual = false;
};

/// Returns the heads whose cross-attention follows the audio, as layer, head, layer, head ... For
/// known models (tiny, base, small, medium, large-v3, large-v3-turbo) these are the heads in
/// OpenAI's code. For all other shapes, including that of large-v1 and v2 (which cannot be
/// distinguished), these are all heads of the last half of the layers, OpenAI's default.
std::vector<int64_t> usual_alignment_heads(const SpeechShape& shape);

}  // namespace veery
