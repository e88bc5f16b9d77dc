#include "graph/shape.h"

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

constexpr const char* kNames[] = {"", "rows", "outputs", "sequences"};

}  // namespace

Shape::Shape(std::initializer_list<Dim> list) : rank(static_cast<int8_t>(list.size())) {
  VEERY_CHECK(list.size() <= kMaxRank);
  std::copy(list.begin(), list.end(), dims.begin());
}

Dim Shape::rows() const {
  if (rank < 2) return 1;
  if (rank == 2) return dims[0];
  int64_t product = 1;
  for (int i = 0; i + 1 < rank; ++i) {
    VEERY_CHECK((*this)[i].is_known());
    product *= (*this)[i].size;
  }
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) {
    const Dim dim = shape[i];
    text += i == 0 ? "" : ", ";
    text += dim.is_known() ? std::to_string(dim.size) : kNames[static_cast<size_t>(dim.symbol)];
  }
  return text + "]";
}

}  // namespace veery
