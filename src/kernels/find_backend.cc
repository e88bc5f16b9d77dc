#include "kernels/find_backend.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace veery {
namespace {

// N of "cuda:N"; of "cuda" 0.
std::optional<int> gpu_of(std::string_view name) {
  int index = 0;
  if (name == "cuda") return index;
  if (!name.starts_with("cuda:")) return {};
  name.remove_prefix(5);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return {};
  return index;
}

}  // namespace

bool is_device(std::string_view name) {
  return name == "auto" || name == "cpu" || name == "metal" || gpu_of(name).has_value();
}

std::shared_ptr<Backend> find_backend(std::string_view name, std::string& why, bool relaxed) {
  if (name == "auto") {
    why = cuda_refusal();
    if (why.empty()) return make_cuda_backend(0, relaxed);
    if (relaxed) throw Error(ErrorKind::kInput, "relaxed products: found no NVIDIA GPU: {}", why);
    const std::string others = metal_refusal();
    if (!others.empty()) {
      why += ", " + others;
      return nullptr;
    }
    why.clear();
    return make_metal_backend();
  }
  if (const auto gpu = gpu_of(name)) return make_cuda_backend(*gpu, relaxed);
  if (relaxed)
    throw Error(ErrorKind::kInput,
                "relaxed products: the device is {}, expected an NVIDIA GPU (cuda)", name);
  if (name == "cpu") return nullptr;
  if (name == "metal") return make_metal_backend();
  throw Error(ErrorKind::kInput, "device '{}' is none of {}", name, kDevices);
}

}  // namespace veery
