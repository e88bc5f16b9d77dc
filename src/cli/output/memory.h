// memory.h: the memory that this process and a model's device use.
#pragma once
#include <cstddef>

#include "base/json.h"

namespace veery {
class Model;
}

namespace veery::cli {

/// Returns the highest resident set size of this process so far, in bytes.
size_t peak_memory();

/// Returns {"active_bytes", "peak_bytes", "cached_bytes"} of the device that the model is on, or
/// null if the device has no memory of its own.
Json device_memory(const Model& model);

}  // namespace veery::cli
