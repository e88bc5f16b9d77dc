// pack.h: packs weights into the format that GPU kernels read (weight_format.h).
#pragma once
#include <optional>

#include "dtype/dtype.h"
#include "kernels/gpu/packing/activations.h"

namespace veery::gpu {

/// The format of weights of this type; absent: GPUs have none.
std::optional<WeightFormat> weight_format(DType type);
/// The kind of activations for its products. `tensor_cores`: there are tensor cores for floats.
ActivationKind activation_kind_for(WeightFormat format, bool tensor_cores);

/// Bytes of a panel of 16 rows.
int64_t panel_bytes(WeightFormat format, int64_t cols);

/// Packs rows [first, last) of a matrix. `rows`: those rows as the file has them; `packed`: all
/// panels. `first` is a multiple of 16; absent rows of the last panel become zeros.
struct RowRange {
  int64_t first, last;
};
void pack_rows(DType type, const std::byte* rows, int64_t cols, const RowRange& range,
               std::byte* packed);

}  // namespace veery::gpu
