#include "kernels/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "base/error.h"

namespace veery::cuda {
namespace {

struct Loaded {
  CublasLt library;
  std::string refusal;
};

Loaded load_library() {
  Loaded loaded;
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.refusal =
        "found neither libcublasLt.so.13 nor libcublasLt.so.12; install CUDA 12 or 13, or pip's "
        "nvidia-cublas, and add the library's folder to LD_LIBRARY_PATH";
    return loaded;
  }
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && loaded.refusal.empty())
      loaded.refusal = fmt::format("libcublasLt is too old: it lacks {}", symbol);
  };
#define VEERY_CUBLAS_LT_FIND(name, symbol, parameters) find(loaded.library.name, #symbol);
  VEERY_CUBLAS_LT_FUNCTIONS(VEERY_CUBLAS_LT_FIND)
#undef VEERY_CUBLAS_LT_FIND
  return loaded;
}

}  // namespace

void CublasLt::check(lt::Status status, const char* what) const {
  if (status != 0) throw Error(ErrorKind::kIo, "cublasLt: {}: status {}", what, status);
}

const CublasLt* find_cublas_lt(std::string& why) {
  static const Loaded loaded = load_library();
  why = loaded.refusal;
  return why.empty() ? &loaded.library : nullptr;
}

}  // namespace veery::cuda
