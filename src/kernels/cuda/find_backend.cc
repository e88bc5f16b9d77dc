#include "kernels/cuda/find_backend.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "kernels/cuda/cuda.h"

namespace veery {
namespace {

// N of "cuda:N", 0 of "cuda".
std::optional<int> gpu_of(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return {};
  name.remove_prefix(5);
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return {};
  return index;
}

}  // namespace

bool is_device(std::string_view name) { return name == "auto" || name == "cpu" || gpu_of(name); }

std::shared_ptr<Backend> find_backend(std::string_view name, std::string& why) {
  if (name == "cpu") return nullptr;
  if (name == "auto") {
    why = cuda_refusal();
    return why.empty() ? make_cuda_backend(0) : nullptr;
  }
  if (const auto index = gpu_of(name)) return make_cuda_backend(*index);
  throw Error(ErrorKind::kInput, "device '{}' is none of auto, cpu, cuda, cuda:N", name);
}

}  // namespace veery
