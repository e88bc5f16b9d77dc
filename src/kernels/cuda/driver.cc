#include "kernels/cuda/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace veery::cuda {
namespace {

struct Loaded {
  Driver driver;
  std::string refusal;
};

Loaded load_driver() {
  Loaded loaded;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.refusal = "found no NVIDIA driver (libcuda.so.1)";
    return loaded;
  }
  // A missing function means that the driver is too old.
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && loaded.refusal.empty())
      loaded.refusal = fmt::format("the NVIDIA driver is too old: it lacks {}", symbol);
  };
#define VEERY_CUDA_FIND(name, symbol, parameters) find(loaded.driver.name, #symbol);
  VEERY_CUDA_FUNCTIONS(VEERY_CUDA_FIND)
#undef VEERY_CUDA_FIND
#define VEERY_CUDA_FIND(name, symbol, parameters) \
  loaded.driver.name = reinterpret_cast<Result(*) parameters>(::dlsym(library, #symbol));
  VEERY_CUDA_LOOP_FUNCTIONS(VEERY_CUDA_FIND)
#undef VEERY_CUDA_FIND
  if (!loaded.refusal.empty()) return loaded;
  int count = 0;
  if (const Result result = loaded.driver.init(0); result != 0) {
    const char* text = nullptr;
    loaded.driver.error_text(result, &text);
    loaded.refusal = fmt::format("cannot initialise the NVIDIA driver: {}",
                                 text != nullptr ? text : "unknown error");
  } else if (loaded.driver.device_count(&count) != 0 || count == 0) {
    loaded.refusal = "found no NVIDIA GPU";
  }
  return loaded;
}

}  // namespace

void Driver::check(Result result, const char* what) const {
  if (result == 0) return;
  const char* text = nullptr;
  error_text(result, &text);
  throw Error(ErrorKind::kIo, "cuda: {}: {}", what, text != nullptr ? text : "unknown error");
}

const Driver* find_driver(std::string& why) {
  static const Loaded loaded = load_driver();
  why = loaded.refusal;
  return why.empty() ? &loaded.driver : nullptr;
}

}  // namespace veery::cuda
