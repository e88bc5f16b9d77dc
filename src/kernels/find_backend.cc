#include "kernels/find_backend.h"

#include <algorithm>
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

// The indices of "cuda:N,cuda:M"; none if `names` is something else.
std::vector<int> gpus_of(std::string_view names) {
  std::vector<int> gpus;
  while (true) {
    const size_t comma = names.find(',');
    const auto gpu = gpu_of(names.substr(0, comma));
    if (!gpu) return {};
    gpus.push_back(*gpu);
    if (comma == std::string_view::npos) return gpus;
    names.remove_prefix(comma + 1);
  }
}

}  // namespace

bool is_device(std::string_view name) {
  return name == "auto" || name == "cpu" || name == "metal" || !gpus_of(name).empty();
}

std::vector<std::shared_ptr<Backend>> find_backends(std::string_view name, std::string& why,
                                                    bool relaxed) {
  if (name == "auto") {
    why = cuda_refusal();
    if (why.empty()) return {make_cuda_backend(0, relaxed)};
    if (relaxed) throw Error(ErrorKind::kInput, "relaxed products: found no NVIDIA GPU: {}", why);
    const std::string others = metal_refusal();
    if (!others.empty()) {
      why += ", " + others;
      return {};
    }
    why.clear();
    return {make_metal_backend()};
  }
  std::vector<std::shared_ptr<Backend>> backends;
  std::vector<int> gpus = gpus_of(name);
  for (size_t i = 0; i < gpus.size(); ++i)
    if (std::find(gpus.begin(), gpus.begin() + static_cast<ptrdiff_t>(i), gpus[i]) !=
        gpus.begin() + static_cast<ptrdiff_t>(i))
      throw Error(ErrorKind::kInput, "device '{}' names cuda:{} twice", name, gpus[i]);
  for (const int gpu : gpus) backends.push_back(make_cuda_backend(gpu, relaxed));
  if (!backends.empty()) return backends;
  if (relaxed)
    throw Error(ErrorKind::kInput,
                "relaxed products: the device is {}, expected an NVIDIA GPU (cuda)", name);
  if (name == "cpu") return {};
  if (name == "metal") return {make_metal_backend()};
  throw Error(ErrorKind::kInput, "device '{}' is none of {}", name, kDevices);
}

}  // namespace veery
