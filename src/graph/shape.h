// shape.h: the shape of a value: rows x columns, where the number of rows may be known only when a
// plan runs.
#pragma once
#include <cstdint>
#include <string>

namespace veery {

/// Rows that vary between runs; a plan is made for a largest number of them.
inline constexpr int64_t kTokenRows = -1;   ///< one row a token of the run
inline constexpr int64_t kOutputRows = -2;  ///< one row a token whose output is wanted

struct Shape {
  int64_t rows = 0;
  int64_t cols = 0;
  bool operator==(const Shape&) const = default;
};

/// "[512, 576]"; symbolic rows print as "tokens" and "outputs".
std::string to_string(const Shape& shape);

}  // namespace veery
