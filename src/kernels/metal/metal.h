// metal.h: the shaders for Apple GPUs.
#pragma once
#include <string_view>

namespace veery::metal {

/// The shaders as one text (kernels/gpu/kernels.metal).
extern const std::string_view kShaders;

}  // namespace veery::metal
