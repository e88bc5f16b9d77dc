// results.h: texts and arrays that callers own and pass to veery_free().
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace veery::capi {

/// Copies `text` and a zero byte after it. `length` may be null. Throws std::bad_alloc.
void give_text(std::string_view text, char** out, size_t* length);
/// Copies `bytes` bytes; the result is not null even if there are none. Throws std::bad_alloc.
void give_bytes(const void* data, size_t bytes, void** out);
template <typename T>
void give_array(const std::vector<T>& values, T** out, size_t* count) {
  void* copy = nullptr;
  give_bytes(values.data(), values.size() * sizeof(T), &copy);
  *out = static_cast<T*>(copy);
  *count = values.size();
}

}  // namespace veery::capi
