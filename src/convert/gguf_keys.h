// gguf_keys.h: the metadata of GGUF that describes a decoder.
#pragma once
#include <string_view>

#include "model/config.h"

namespace veery {

/// What GGUF calls an architecture of the registry.
std::string_view gguf_architecture(std::string_view architecture);

/// general.architecture and ARCHITECTURE.*, by llama.cpp's names of keys, such that a file with
/// them and the tensors of `file` (names, shapes) is read as `c`. Throws kUnsupported naming what
/// no key can say.
Metadata gguf_keys(const TransformerConfig& c, const ModelFile& file);

/// The divisors of frequencies that stand for Llama 3's scaling of RoPE in GGUF: dims / 2 numbers;
/// none for other scalings. Source: Grattafiori et al., arXiv:2407.21783, as transformers has it.
std::vector<float> llama3_divisors(const AnglesAttr& rope);

}  // namespace veery
