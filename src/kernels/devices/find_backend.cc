#include "kernels/devices/find_backend.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/metal/metal.h"

namespace veery {
namespace {

struct Gpu {
  int index;
  cuda::Steps steps;
};
// "cuda" or "cuda:N", and how steps of one sequence are run.
std::optional<Gpu> gpu_of(std::string_view name) {
  constexpr std::string_view kWalk = ",walk";
  Gpu gpu{0, cuda::Steps::kGraph};
  if (name.ends_with(kWalk)) gpu.steps = cuda::Steps::kWalk, name.remove_suffix(kWalk.size());
  if (name == "cuda") return gpu;
  if (!name.starts_with("cuda:")) return {};
  name.remove_prefix(5);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), gpu.index);
  if (error != std::errc() || end != name.data() + name.size() || gpu.index < 0) return {};
  return gpu;
}

}  // namespace

bool is_device(std::string_view name) {
  return name == "auto" || name == "cpu" || name == "metal" || gpu_of(name).has_value();
}

std::shared_ptr<Backend> find_backend(std::string_view name, std::string& why, bool relaxed) {
  if (name == "auto") {
    why = cuda_refusal();
    if (why.empty()) return make_cuda_backend(0, cuda::Steps::kGraph, relaxed);
    if (relaxed) throw Error(ErrorKind::kInput, "relaxed products: found no NVIDIA GPU: {}", why);
    const std::string others = metal_refusal();
    if (!others.empty()) {
      why += ", " + others;
      return nullptr;
    }
    why.clear();
    return make_metal_backend();
  }
  if (const auto gpu = gpu_of(name)) return make_cuda_backend(gpu->index, gpu->steps, relaxed);
  if (relaxed)
    throw Error(ErrorKind::kInput,
                "relaxed products: the device is {}, expected an NVIDIA GPU (cuda)", name);
  if (name == "cpu") return nullptr;
  if (name == "metal") return make_metal_backend();
  throw Error(ErrorKind::kInput, "device '{}' is none of {}", name, kDevices);
}

}  // namespace veery
