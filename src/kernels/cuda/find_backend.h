// find_backend.h: devices by name.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.h"

namespace veery {

/// "auto", "cpu", "cuda" or "cuda:N", the latter two also with ",walk" behind (cuda::Steps).
bool is_device(std::string_view name);
/// The backend of a device; nullptr: the CPU. "auto" is the first GPU, or the CPU, and `why` then
/// says the reason. Throws as make_cuda_backend().
std::shared_ptr<Backend> find_backend(std::string_view name, std::string& why);

}  // namespace veery
