// shape.h: the shape of a value: up to four dimensions, some of which are known only when a plan
// runs.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace veery {

/// Dimensions that vary between runs; a plan is made for a largest size of each.
enum class Symbol : uint8_t {
  kNone,
  kRows,       ///< one row a token of the run
  kOutputs,    ///< one row a token whose output is wanted
  kSequences,  ///< one row a sequence of the run
};

/// One dimension: a size, or a symbol.
struct Dim {
  int64_t size = 0;  ///< 0 where it is a symbol
  Symbol symbol = Symbol::kNone;

  constexpr Dim() = default;
  constexpr Dim(std::integral auto elements)  // NOLINT(google-explicit-constructor)
      : size(static_cast<int64_t>(elements)) {}
  constexpr Dim(Symbol varies) : symbol(varies) {}  // NOLINT(google-explicit-constructor)
  constexpr bool is_known() const { return symbol == Symbol::kNone; }
  /// The size, or a negative number that stands for the symbol: how plain records hold it.
  constexpr int64_t code() const { return is_known() ? size : -static_cast<int64_t>(symbol); }
  constexpr bool operator==(const Dim&) const = default;
};

inline constexpr int kMaxRank = 4;

/// Row-major; the last dimension is contiguous. Values of a run are matrices [rows, columns],
/// vectors are [1, n], stacks of matrices [count, rows, columns].
struct Shape {
  std::array<Dim, kMaxRank> dims{};
  int8_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<Dim> list);

  Dim operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  /// As a matrix: all dimensions but the last, which may be one symbol, and the last one, which is
  /// known.
  Dim rows() const;
  int64_t cols() const { return rank == 0 ? 1 : dims[static_cast<size_t>(rank) - 1].size; }
  bool operator==(const Shape&) const = default;
};

/// "[512, 576]"; symbols print as "rows", "outputs", "sequences", "frames" and "source".
std::string to_string(const Shape& shape);

}  // namespace veery
