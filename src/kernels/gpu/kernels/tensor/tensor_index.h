// tensor_index.h: elements of tensors at computed indices, running sums, numbers by position.
#pragma once
#include "kernels/gpu/params/tensor_index_params.h"

#if defined(VEERY_CUDA_CODE)
#include "base/philox.h"
#include "kernels/gpu/kernels/tensor/element_functions-inl.h"

namespace veery::gpu {

/// The index of this thread in the launch.
VEERY_GPU int64_t thread_in_launch() { return int64_t{block_x()} * threads() + thread(); }

/// An index counted from the front; 0 if it is outside of the axis.
VEERY_GPU int64_t checked_index(const TensorIndexParams& a, int64_t index, int64_t size) {
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && at < size) return at;
  *a.error = a.error_id;
  return 0;
}

/// One thread per element of the result.
VEERY_GPU void tensor_take(const TensorIndexParams& a) {
  wait_for_dependencies();
  const TensorLines& l = a.lines;
  const int64_t i = thread_in_launch();
  if (i >= l.outer * l.to * l.inner) return;
  const int64_t inner = i % l.inner, line = i / l.inner;
  const int64_t index = l.indices[l.along != 0 ? i : line % l.to];
  const int64_t row = line / l.to * l.from + checked_index(a, index, l.from);
  const int64_t at = row * l.inner + inner;
  // `type`: the bytes of an element.
  switch (l.type) {
    case 1: l.out[i] = l.x[at]; break;
    case 2:
      reinterpret_cast<uint16_t*>(l.out)[i] = reinterpret_cast<const uint16_t*>(l.x)[at];
      break;
    case 4:
      reinterpret_cast<uint32_t*>(l.out)[i] = reinterpret_cast<const uint32_t*>(l.x)[at];
      break;
    default: reinterpret_cast<uint64_t*>(l.out)[i] = reinterpret_cast<const uint64_t*>(l.x)[at];
  }
}

/// One thread per line, so that updates of one element are added in the order of the indices.
VEERY_GPU void tensor_scatter_add(const TensorIndexParams& a) {
  wait_for_dependencies();
  const TensorLines& l = a.lines;
  const int64_t line = thread_in_launch();
  if (line >= l.outer * l.inner) return;
  const int64_t outer = line / l.inner, inner = line % l.inner;
  const auto type = static_cast<ElementType>(l.type);
  for (int64_t j = 0; j < l.to; ++j) {
    const int64_t from = (outer * l.to + j) * l.inner + inner;
    const int64_t index = checked_index(a, l.indices[l.along != 0 ? from : j], l.from);
    const int64_t at = (outer * l.from + index) * l.inner + inner;
    store_word(type, l.out, at,
               combined(ReduceOp::kSum, type, load_word<uint64_t>(type, l.out, at),
                        load_word<uint64_t>(type, l.x, from)));
  }
}

/// One thread per line.
VEERY_GPU void tensor_cumulate(const CumulateParams& a) {
  wait_for_dependencies();
  const TensorLines& l = a.lines;
  const int64_t line = thread_in_launch();
  if (line >= l.outer * l.inner) return;
  const int64_t first = line / l.inner * l.from * l.inner + line % l.inner;
  const auto type = static_cast<ElementType>(l.type);
  const ReduceOp op = a.product != 0 ? ReduceOp::kProduct : ReduceOp::kSum;
  const bool is_f32 = type == ElementType::kF32;
  uint64_t sum = 0;
  if (a.product != 0)
    sum = is_f32                      ? to_word<uint64_t>(1.0F)
          : type == ElementType::kF64 ? to_word<uint64_t>(1.0)
                                      : uint64_t{1};
  for (int64_t i = 0; i < l.from; ++i) {
    const int64_t at = first + i * l.inner;
    sum = combined(op, type, sum, load_word<uint64_t>(type, l.x, at));
    store_word(type, l.out, at, sum);
  }
}

/// Four numbers per thread.
VEERY_GPU void tensor_random_bits(const RandomBitsParams& a) {
  wait_for_dependencies();
  const int64_t block = thread_in_launch();
  if (block * 4 >= a.count) return;
  const PhiloxBlock made =
      philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), a.stream, 0}},
             a.key[0], a.key[1]);
  for (int k = 0; k < 4; ++k)
    if (block * 4 + k < a.count) a.out[block * 4 + k] = made.numbers[k];
}

VEERY_GPU void tensor_sequence(const SequenceParams& a) {
  wait_for_dependencies();
  const int64_t i = thread_in_launch();
  if (i >= a.count) return;
  a.out[i] =
      a.is_float != 0
          ? float_to_bits(bits_to_double(a.first) + static_cast<double>(i) * bits_to_double(a.step))
          : a.first + i * a.step;
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_TENSOR_INDEX_KERNELS(X)                                \
  VEERY_GPU_SINGLE(X, kCuda, tensor_take, TensorIndexParams, 256)        \
  VEERY_GPU_SINGLE(X, kCuda, tensor_scatter_add, TensorIndexParams, 256) \
  VEERY_GPU_SINGLE(X, kCuda, tensor_cumulate, CumulateParams, 256)       \
  VEERY_GPU_SINGLE(X, kCuda, tensor_random_bits, RandomBitsParams, 256)  \
  VEERY_GPU_SINGLE(X, kCuda, tensor_sequence, SequenceParams, 256)
