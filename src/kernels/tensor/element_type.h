// element_type.h: the element types of tensors.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace veery {

/// Types that the elements of a tensor may have. Weights in blocks are not among them.
enum class ElementType : uint8_t { kBool, kU8, kI8, kI32, kU32, kI64, kF16, kBF16, kF32, kF64 };
inline constexpr int kElementTypes = 10;

/// In ascending order: a kind can hold the values of the kinds before it.
enum class ElementKind : uint8_t { kBool, kInteger, kFloat };

struct ElementTypeInfo {
  std::string_view name;
  int bytes;
  ElementKind kind;
  bool is_signed;
};

inline constexpr std::array<ElementTypeInfo, kElementTypes> kElementTypeInfo{{
    {"bool", 1, ElementKind::kBool, false},
    {"u8", 1, ElementKind::kInteger, false},
    {"i8", 1, ElementKind::kInteger, true},
    {"i32", 4, ElementKind::kInteger, true},
    {"u32", 4, ElementKind::kInteger, false},
    {"i64", 8, ElementKind::kInteger, true},
    {"f16", 2, ElementKind::kFloat, true},
    {"bf16", 2, ElementKind::kFloat, true},
    {"f32", 4, ElementKind::kFloat, true},
    {"f64", 8, ElementKind::kFloat, true},
}};

constexpr const ElementTypeInfo& info(ElementType type) {
  return kElementTypeInfo[static_cast<size_t>(type)];
}
constexpr bool is_float(ElementType type) { return info(type).kind == ElementKind::kFloat; }
constexpr bool is_integer(ElementType type) { return info(type).kind == ElementKind::kInteger; }

/// The type in which elements are computed: f16 and bf16 are computed in f32, and each result is
/// rounded.
constexpr ElementType computed_type(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBF16 ? ElementType::kF32 : type;
}

}  // namespace veery
