// pack.h: weights as kernels for GPUs read them (Format in arguments.h).
#pragma once
#include <optional>

#include "dtype/dtype.h"
#include "kernels/gpu/packing/activations.h"

namespace veery::gpu {

/// How a weight of this type lies; absent: there is no layout.
std::optional<WeightFormat> weight_format(DType type);
/// What activations are for its products. `cores`: there are tensor cores for floats.
ActivationKind activation_kind_for(WeightFormat format, bool cores);

/// Bytes of a panel of 16 rows.
int64_t panel_bytes(WeightFormat format, int64_t cols);

/// Lays out rows [first, last) of a matrix, `rows` as the file has them; `packed`: of all panels.
/// `first` is a multiple of 16; what is missing of the last panel becomes zeros.
struct RowRange {
  int64_t first, last;
};
void pack_rows(DType type, const std::byte* rows, int64_t cols, const RowRange& range,
               std::byte* packed);

}  // namespace veery::gpu
