// metal.h: Apple GPUs.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.h"

namespace veery {

namespace metal {
/// The shaders, as one text (kernels/gpu/kernels.metal).
extern const std::string_view kShaders;
}  // namespace metal

/// Why there is no backend for Apple GPUs here; empty: there is one.
std::string metal_refusal();
/// Throws kUnsupported with the reason where there is none.
std::shared_ptr<Backend> make_metal_backend();

}  // namespace veery
