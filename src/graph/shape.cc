#include "graph/shape.h"

#include <fmt/format.h>

namespace veery {

std::string to_string(const Shape& shape) {
  if (shape.rows == kTokenRows) return fmt::format("[tokens, {}]", shape.cols);
  if (shape.rows == kOutputRows) return fmt::format("[outputs, {}]", shape.cols);
  return fmt::format("[{}, {}]", shape.rows, shape.cols);
}

}  // namespace veery
