#include "plan/placement.h"

#include "plan/split.h"

namespace veery {

size_t place_of(std::span<const int32_t> first_layers, std::string_view name) {
  const int32_t layer = layer_of(name);
  size_t place = 0;
  while (place + 1 < first_layers.size() && first_layers[place + 1] <= layer) ++place;
  return place;
}

}  // namespace veery
