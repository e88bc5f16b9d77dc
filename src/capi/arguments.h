// arguments.h: checked arguments of calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace veery::capi {

/// Returns `*argument`. Throws kInput naming it if it is null.
template <typename T>
T& required(T* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorKind::kInput, "{} is null", name);
  return *argument;
}

/// Returns a text of `length` bytes; VEERY_NUL: up to the first zero byte. Throws kInput if it is
/// null, unless the length is 0.
std::string_view text_of(const char* text, size_t length, const char* name);
/// Returns a zero-terminated text. Throws kInput if it is null.
std::string required_text(const char* text, const char* name);
/// Returns zero-terminated texts. Throws kInput if one of them is null.
std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* name);
/// Returns token ids, which are not checked. Throws kInput for null, unless the count is 0.
std::vector<int32_t> ids_of(const int32_t* ids, size_t count);

}  // namespace veery::capi
