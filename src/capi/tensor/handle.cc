#include "capi/tensor/handle.h"

#include <array>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace veery::capi {
namespace {

/// The handles that are not freed, so that others are refused instead of read. Threads rarely meet,
/// because addresses are spread over several sets.
class LiveHandles {
 public:
  /// Never destroyed: handles may be freed by destructors of static objects.
  static LiveHandles& get() {
    static LiveHandles* handles = new LiveHandles;
    return *handles;
  }
  void add(const veery_tensor* handle) {
    Part& part = part_of(handle);
    const std::lock_guard lock(part.mutex);
    part.handles.insert(handle);
  }
  bool has(const veery_tensor* handle) {
    Part& part = part_of(handle);
    const std::lock_guard lock(part.mutex);
    return part.handles.contains(handle);
  }
  /// Returns whether it was there.
  bool remove(const veery_tensor* handle) {
    Part& part = part_of(handle);
    const std::lock_guard lock(part.mutex);
    return part.handles.erase(handle) > 0;
  }
  size_t count() {
    size_t count = 0;
    for (Part& part : parts_) {
      const std::lock_guard lock(part.mutex);
      count += part.handles.size();
    }
    return count;
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_set<const veery_tensor*> handles;
  };
  Part& part_of(const veery_tensor* handle) {
    return parts_[reinterpret_cast<uintptr_t>(handle) / sizeof(veery_tensor) % parts_.size()];
  }
  std::array<Part, 16> parts_;
};

}  // namespace

veery_tensor* new_handle(tensor::Tensor tensor, std::optional<tensor::Scalar> number) {
  auto handle = std::make_unique<veery_tensor>(veery_tensor{std::move(tensor), number});
  LiveHandles::get().add(handle.get());
  return handle.release();
}

void release_handle(veery_tensor* handle) noexcept {
  if (handle != nullptr && LiveHandles::get().remove(handle)) delete handle;
}

bool is_handle(const veery_tensor* handle) { return LiveHandles::get().has(handle); }
size_t handle_count() { return LiveHandles::get().count(); }

const veery_tensor& handle_of(const veery_tensor* handle, const char* name) {
  if (handle == nullptr) throw Error(ErrorKind::kInput, "{} is null", name);
  if (!is_handle(handle))
    throw Error(ErrorKind::kInput, "{} is no tensor: it was freed, or is another pointer", name);
  return *handle;
}

std::vector<tensor::Tensor> tensors_of(veery_tensor* const* handles, size_t count,
                                       const char* name) {
  if (count > kMostTensors)
    throw Error(ErrorKind::kInput, "{}: {} tensors, expected at most {}", name, count,
                kMostTensors);
  if (count > 0) required(handles, name);
  std::vector<tensor::Tensor> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(tensor_of(handles[i], fmt::format("{}[{}]", name, i).c_str()));
  return result;
}

tensor::Dtype dtype_of(int32_t dtype) {
  if (dtype < VEERY_DTYPE_BOOL || dtype > VEERY_DTYPE_F64)
    throw Error(ErrorKind::kInput, "dtype is {}, expected a veery_dtype", dtype);
  return static_cast<tensor::Dtype>(dtype);
}

void give_all(std::span<const tensor::Tensor> tensors, veery_tensor** out) {
  size_t made = 0;
  try {
    for (; made < tensors.size(); ++made) out[made] = new_handle(tensors[made]);
  } catch (...) {
    while (made-- > 0) release_handle(std::exchange(out[made], nullptr));
    throw;
  }
}

}  // namespace veery::capi

using namespace veery::capi;

veery_status veery_tensor_retain(const veery_tensor* x, veery_tensor** out) {
  return guarded([&] {
    required(out, "out") = nullptr;
    const veery_tensor& same = handle_of(x, "x");
    *out = new_handle(same.tensor, same.number);
    return VEERY_OK;
  });
}

void veery_tensor_free(veery_tensor* x) { release_handle(x); }

size_t veery_tensor_handle_count(void) { return handle_count(); }
