// ggml_speech.h: models of speech as whisper.cpp keeps them.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "file/model_file.h"

namespace veery {

/// Whether the bytes begin as such a file does ("ggml", read as a number of 32 bits).
bool is_ggml_speech(std::span<const std::byte> bytes);

/// Maps and checks a .bin file of whisper.cpp, floats or quantised: sizes, mel filters (which are
/// not read: they are those of audio/log_mel.h), vocabulary, tensors. Gives what a GGUF file of the
/// model would hold, under our names and keys. Every count and size is checked before it is used;
/// throws kFormat naming what was found and what was expected, kUnsupported for a type that is not
/// known.
ModelFile open_ggml_speech(const std::string& path);

/// The same on bytes in memory, which must last as long; `name` stands for the path.
ModelFile parse_ggml_speech(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery
