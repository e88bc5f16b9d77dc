// gguf_keys.h: generates the GGUF metadata of a decoder.
#pragma once
#include <string_view>

#include "model/config.h"

namespace veery {

/// Returns GGUF's name of an architecture of the registry.
std::string_view gguf_architecture(std::string_view architecture);

/// Returns general.architecture and ARCHITECTURE.* with llama.cpp's key names, such that a file
/// with these keys and the tensors of `file` (names, shapes) is read as `c`. Throws kUnsupported
/// naming what no key can represent.
Metadata gguf_keys(const TransformerConfig& c, const ModelFile& file);

/// Returns the frequency divisors that represent Llama 3's RoPE scaling in GGUF: dims / 2 numbers;
/// empty for other scalings. Source: Grattafiori et al., arXiv:2407.21783, as in transformers.
std::vector<float> llama3_divisors(const AnglesAttr& rope);

}  // namespace veery
