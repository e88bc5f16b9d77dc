// tensor_index_params.h: parameters of the kernels that read, add and order elements of tensors by
// indices.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// veery::IndexedLines in device memory. `type`: veery::ElementType.
struct TensorLines {
  int64_t outer, from, to, inner;
  const VEERY_DEVICE uint8_t* x;
  const VEERY_DEVICE int64_t* indices;
  VEERY_DEVICE uint8_t* out;
  int32_t along, type;
};
/// `error`: receives `error_id` if an index is outside of its axis.
struct TensorIndexParams {
  TensorLines lines;
  VEERY_DEVICE int32_t* error;
  int32_t error_id;
};
struct CumulateParams {
  TensorLines lines;
  int32_t product;
};
struct ArgReduceParams {
  TensorLines lines;
  VEERY_DEVICE int64_t* out;
  int32_t largest;
};
/// One pass of a bitonic sort of `order` [lines][padded], whose indices from lines.from on come
/// last: pairs `distance` apart, in directions that change every `run` elements.
struct SortPassParams {
  TensorLines lines;
  VEERY_DEVICE int32_t* order;
  int64_t padded, run, distance;
  int32_t descending;
};
struct SortOrderParams {
  TensorLines lines;
  VEERY_DEVICE int32_t* order;
  VEERY_DEVICE int64_t* out;  ///< nullptr: `order` is initialised; otherwise it is copied to `out`
  int64_t padded;
};
struct RandomBitsParams {
  const VEERY_DEVICE uint32_t* key;
  VEERY_DEVICE uint32_t* out;
  int64_t count;
  uint32_t stream;
};
/// first + i * step as i64, or as f64 whose bits `first` and `step` are.
struct SequenceParams {
  VEERY_DEVICE int64_t* out;
  int64_t count, first, step;
  int32_t is_float;
};

}  // namespace veery::gpu
