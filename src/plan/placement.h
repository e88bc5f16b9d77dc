// placement.h: which layers of a model run on which device.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace veery {

/// Consecutive layers on one device, from `first_layer` to that of the next place. The first place
/// also has the embedding, the last one the output head.
struct Place {
  Backend* backend = nullptr;
  int32_t first_layer = 0;   ///< 0 of the first place
  Device* memory = nullptr;  ///< of caches and activations: the backend's, or the host's to measure
};
/// At least one place, in the order of layers: one device, CPU and GPU, or a pipeline of GPUs.
using Placement = std::vector<Place>;

/// Returns the index of the place that has a weight or state "blk.N. ..."; 0 for any other name.
size_t place_of(std::span<const int32_t> first_layers, std::string_view name);

}  // namespace veery
