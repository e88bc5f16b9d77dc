// attr.h: parameters of an op that are fixed at tracing: a small struct per op, held by value.
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace veery {

/// Holds one trivially copyable struct, or nothing. The structs are defined with their ops
/// (graph/ops/*.h); kernels receive a copy.
class Attr {
 public:
  static constexpr size_t kBytes = 128;

  Attr() = default;
  template <typename A>
  requires(!std::is_same_v<A, Attr>) Attr(const A& attr)
      : type_(&kType<A>) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= kBytes && alignof(A) <= 8);
    std::memcpy(bytes_.data(), &attr, sizeof(A));
  }

  /// Returns the struct, or nullptr if the attribute holds another type.
  template <typename A>
  const A* get() const {
    return type_ == &kType<A> ? &as<A>() : nullptr;
  }
  /// Unchecked access, for kernels.
  template <typename A>
  const A& as() const {
    return *reinterpret_cast<const A*>(bytes_.data());
  }

 private:
  template <typename A>
  static constexpr char kType = 0;

  alignas(8) std::array<std::byte, kBytes> bytes_{};
  const char* type_ = nullptr;
};
static_assert(std::is_trivially_copyable_v<Attr>);

}  // namespace veery
