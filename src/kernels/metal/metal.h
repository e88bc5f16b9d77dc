// metal.h: the source of the shaders for Apple GPUs.
#pragma once
#include <string_view>

namespace veery::metal {

/// All shaders as one source text (kernels/gpu/kernels.metal with its includes).
extern const std::string_view kShaders;

}  // namespace veery::metal
