// find_backend.h: makes backends from names of devices.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace veery {

/// The names that is_device() knows.
inline constexpr std::string_view kDevices = "auto, cpu, cuda, cuda:N[,cuda:M...], metal";

/// Whether `name` is one of kDevices.
bool is_device(std::string_view name);
/// Returns the backends of a device, or of several GPUs that share the layers of a model in this
/// order; none is the CPU. "auto" selects the first GPU; without a GPU it selects the CPU, and
/// `why` gets the reason. `relaxed`: see make_cuda_backend(); throws kInput for other devices.
/// Throws kInput for a GPU that is named twice, and as make_cuda_backend() and
/// make_metal_backend().
std::vector<std::shared_ptr<Backend>> find_backends(std::string_view name, std::string& why,
                                                    bool relaxed = false);

/// Why there is no backend for NVIDIA GPUs here; empty: there is one.
std::string cuda_refusal();
/// The backend of NVIDIA GPU `index`. Throws kUnsupported with the reason if there is no GPU,
/// kInput with the number of GPUs if there are fewer. `relaxed`: prefill by kernels and a library
/// whose bits are not those of the CPU (docs/gpu.md); throws kUnsupported, naming what was looked
/// for, if that library is missing.
std::shared_ptr<Backend> make_cuda_backend(int index, bool relaxed = false);

/// Why there is no backend for Apple GPUs here; empty: there is one.
std::string metal_refusal();
/// Throws kUnsupported with the reason if there is no such GPU.
std::shared_ptr<Backend> make_metal_backend();

}  // namespace veery
