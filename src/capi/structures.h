// structures.h: structures that begin with their size, so that a client and a library of different
// versions understand each other. New members are only ever added at the end, and never into the
// padding there, so a smaller size means an older header.
#pragma once
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "capi/arguments.h"

namespace veery::capi {

/// A structure of veery.h that begins with `size_t size`, the caller's sizeof.
template <typename T>
concept Sized = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
    std::same_as<decltype(T::size), size_t>;

/// A structure as this library knows it.
struct StructureLayout {
  const char* name;
  size_t size, alignment;
};
template <Sized T>
constexpr StructureLayout layout_of(const char* name) {
  return {name, sizeof(T), alignof(T)};
}

/// Copies the members that both sides know from `given` of `size` bytes to `known`, whose other
/// members stay. Throws kInput if `size` cannot be that of such a structure, kUnsupported if bytes
/// that this library does not know are not zero.
void read_structure(const StructureLayout& layout, const void* given, size_t size, void* known);
/// Copies the members that both sides know from `known` to `out` of `size` bytes, and clears the
/// bytes that this library does not know. Throws kInput as read_structure() does.
void write_structure(const StructureLayout& layout, const void* known, void* out, size_t size);

/// Returns `given`, in which members that the caller's header lacks have the values of `defaults`;
/// `defaults` if it is null. Throws as read_structure().
template <Sized T>
T options_or(const T* given, const T& defaults, const char* name) {
  T result = defaults;
  if (given != nullptr) read_structure(layout_of<T>(name), given, given->size, &result);
  result.size = sizeof(T);
  return result;
}

/// Writes `value` to `out`, whose size is `size` in the caller's header. Throws kInput for null and
/// for a size that cannot be that of such a structure.
template <Sized T>
void give_structure(T* out, size_t size, T value, const char* name) {
  required(out, name);
  value.size = size;
  write_structure(layout_of<T>(name), &value, out, size);
}

}  // namespace veery::capi
