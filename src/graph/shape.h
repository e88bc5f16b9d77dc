// shape.h: the shape of a value: up to four dimensions, some of which are known only at run time.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace veery {

/// Dimensions that vary between runs; a plan is made for a maximum size of each.
enum class Symbol : uint8_t {
  kNone,
  kRows,       ///< one row per token of the run
  kOutputs,    ///< one row per requested output
  kSequences,  ///< one row per sequence of the run
};

/// One dimension: a size or a symbol.
struct Dim {
  int64_t size = 0;  ///< 0 for a symbol
  Symbol symbol = Symbol::kNone;

  constexpr Dim() = default;
  constexpr Dim(std::integral auto elements)  // NOLINT(google-explicit-constructor)
      : size(static_cast<int64_t>(elements)) {}
  constexpr Dim(Symbol varies) : symbol(varies) {}  // NOLINT(google-explicit-constructor)
  constexpr bool is_known() const { return symbol == Symbol::kNone; }
  /// Returns the size, or a negative number for a symbol, for storage in plain records.
  constexpr int64_t code() const { return is_known() ? size : -static_cast<int64_t>(symbol); }
  constexpr bool operator==(const Dim&) const = default;
};

inline constexpr int kMaxRank = 4;

/// Row-major; the last dimension is contiguous. Values of a run are matrices [rows, columns],
/// vectors are [1, n], stacks of matrices are [count, rows, columns].
struct Shape {
  std::array<Dim, kMaxRank> dims{};
  int8_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<Dim> list);

  Dim operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  /// The shape as a matrix: rows() is the product of all dimensions except the last, and may be a
  /// symbol; the last dimension is known.
  Dim rows() const;
  int64_t cols() const { return rank == 0 ? 1 : dims[static_cast<size_t>(rank) - 1].size; }
  bool operator==(const Shape&) const = default;
};

/// Returns "[512, 576]"; symbols are written as "rows", "outputs" and "sequences".
std::string to_string(const Shape& shape);

}  // namespace veery
