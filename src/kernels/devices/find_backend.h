// find_backend.h: devices by name.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.h"

namespace veery {

/// What is_device() knows.
inline constexpr std::string_view kDevices = "auto, cpu, cuda, cuda:N, metal";

/// Whether it is one of kDevices.
bool is_device(std::string_view name);
/// The backend of a device; nullptr: the CPU. "auto" is the first GPU, or the CPU, and `why` then
/// says the reason. `relaxed`: as make_cuda_backend() has it; kInput on all other devices. Throws
/// as make_cuda_backend() and make_metal_backend().
std::shared_ptr<Backend> find_backend(std::string_view name, std::string& why,
                                      bool relaxed = false);

}  // namespace veery
