// handles.h: handles that belong to a model: checked arguments and freeing.
#pragma once
#include <veery/veery.h>

#include <concepts>
#include <memory>

#include "capi/arguments.h"
#include "capi/loaded_model.h"
#include "capi/status.h"

struct veery_model {
  std::shared_ptr<veery::capi::LoadedModel> loaded;
  const veery::capi::LoadedModel& model() const { return *loaded; }
};

namespace veery::capi {

/// veery_model, veery_session or veery_answer.
template <typename T>
concept ModelHandle = requires(const T& handle) {
  { handle.model() } -> std::same_as<const LoadedModel&>;
};

/// Returns `*handle`. Throws kInput if it is null, kUnsupported if its model was loaded before a
/// fork of this process.
template <ModelHandle T>
T& required(T* handle, const char* name) {
  if (handle == nullptr) throw Error(ErrorKind::kInput, "{} is null", name);
  handle->model().check_process();
  return *handle;
}

/// Returns false for null, and in a process that was forked after the model was loaded.
template <ModelHandle T>
bool is_usable(const T* handle) {
  return handle != nullptr && handle->model().is_here();
}

/// Deletes `handle`. A forked process leaks it instead: the destructor would wait for threads that
/// this process does not have.
template <ModelHandle T>
void free_handle(T* handle) noexcept {
  guarded([&] {
    if (is_usable(handle)) delete handle;
    return VEERY_OK;
  });
}

}  // namespace veery::capi
