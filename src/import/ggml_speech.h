// ggml_speech.h: reads whisper.cpp's speech models.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "file/model_file.h"

namespace veery {

/// Returns whether the bytes start with the magic number of such a file ("ggml" as a 32-bit
/// integer).
bool is_ggml_speech(std::span<const std::byte> bytes);

/// Maps and checks a .bin file of whisper.cpp, plain or quantised: sizes, mel filters (skipped,
/// because audio/log_mel.h computes them), vocabulary, tensors. The result equals a GGUF file of
/// the model, with our names and keys. Every count and size is checked before use; throws kFormat
/// naming what was found and what was expected, kUnsupported for an unknown type.
ModelFile open_ggml_speech(const std::string& path);

/// Parses bytes in memory, which must outlive the result; `name` replaces the path in messages.
ModelFile parse_ggml_speech(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery
