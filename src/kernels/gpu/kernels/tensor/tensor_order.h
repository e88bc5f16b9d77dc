// tensor_order.h: the order of the elements of lines of tensors. NaN counts as the largest number,
// and equal elements keep their order.
#pragma once
#include "kernels/gpu/params/tensor_index_params.h"

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/tensor/element_functions-inl.h"

namespace veery::gpu {

template <typename T>
VEERY_GPU bool is_less_number(T a, T b) {
  if constexpr (kIsFloat<T>) return a < b || (a == a && b != b);
  return a < b;
}
VEERY_GPU bool is_less_word(ElementType type, uint64_t a, uint64_t b) {
  const auto as = [&](auto sample) {
    using T = decltype(sample);
    return is_less_number(from_word<T>(a), from_word<T>(b));
  };
  switch (type) {
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF32: return as(float{});
    case ElementType::kF64: return as(double{});
    case ElementType::kI8:
    case ElementType::kI32:
    case ElementType::kI64: return as(int64_t{});
    default: return as(uint64_t{});
  }
}

/// Line i of `lines`, whose elements are lines.inner apart.
struct OrderedLine {
  const TensorLines& lines;
  int64_t first;
  VEERY_GPU OrderedLine(const TensorLines& all, int64_t line)
      : lines(all), first(line / all.inner * all.from * all.inner + line % all.inner) {}
  VEERY_GPU uint64_t at(int64_t i) const {
    return load_word<uint64_t>(static_cast<ElementType>(lines.type), lines.x,
                               first + i * lines.inner);
  }
  /// Whether element a comes before element b. Those that are not there come last.
  VEERY_GPU bool is_before(int64_t a, int64_t b, bool descending) const {
    if (a >= lines.from || b >= lines.from) return a < b;
    const auto type = static_cast<ElementType>(lines.type);
    const uint64_t x = at(a), y = at(b);
    if (descending ? is_less_word(type, y, x) : is_less_word(type, x, y)) return true;
    if (descending ? is_less_word(type, x, y) : is_less_word(type, y, x)) return false;
    return a < b;
  }
};

/// One thread per pair (Batcher, "Sorting networks and their applications", AFIPS 1968).
VEERY_GPU void tensor_sort_pass(const SortPassParams& a) {
  wait_for_dependencies();
  const int64_t i = int64_t{block_x()} * threads() + thread();
  const int64_t pairs = a.padded / 2;
  if (i >= a.lines.outer * a.lines.inner * pairs) return;
  const int64_t line = i / pairs, pair = i % pairs;
  const int64_t low = pair / a.distance * a.distance * 2 + pair % a.distance;
  VEERY_DEVICE int32_t* order = a.order + line * a.padded;
  const int32_t x = order[low], y = order[low + a.distance];
  const bool ascends = (low & a.run) == 0;
  if (OrderedLine(a.lines, line).is_before(y, x, a.descending != 0) != ascends) return;
  order[low] = y;
  order[low + a.distance] = x;
}

/// One thread per element of `order`.
VEERY_GPU void tensor_sort_order(const SortOrderParams& a) {
  wait_for_dependencies();
  const int64_t i = int64_t{block_x()} * threads() + thread();
  const TensorLines& l = a.lines;
  if (i >= l.outer * l.inner * a.padded) return;
  const int64_t line = i / a.padded, at = i % a.padded;
  if (a.out == nullptr)
    a.order[i] = static_cast<int32_t>(at);
  else if (at < l.from)
    a.out[line / l.inner * l.from * l.inner + line % l.inner + at * l.inner] = a.order[i];
}

/// One thread block per line.
VEERY_GPU void tensor_argreduce(const ArgReduceParams& a) {
  wait_for_dependencies();
  const OrderedLine line(a.lines, block_x());
  const auto type = static_cast<ElementType>(a.lines.type);
  // Whether element x is found rather than y. NaN is, in either direction.
  const auto is_better = [&](int64_t x, int64_t y) {
    const uint64_t p = line.at(x), q = line.at(y);
    const bool is_float = type == ElementType::kF32 || type == ElementType::kF64 ||
                          type == ElementType::kF16 || type == ElementType::kBF16;
    if (is_float) {
      const auto is_nan = [&](uint64_t word) {
        return type == ElementType::kF64 ? from_word<double>(word) != from_word<double>(word)
                                         : from_word<float>(word) != from_word<float>(word);
      };
      const bool of_x = is_nan(p), of_y = is_nan(q);
      if (of_x || of_y) return of_x && (!of_y || x < y);
    }
    if (a.largest != 0 ? is_less_word(type, q, p) : is_less_word(type, p, q)) return true;
    if (a.largest != 0 ? is_less_word(type, p, q) : is_less_word(type, q, p)) return false;
    return x < y;
  };
  auto* found = reinterpret_cast<int64_t*>(shared_memory());
  int64_t own = thread() < a.lines.from ? thread() : 0;
  for (int64_t i = own + threads(); i < a.lines.from; i += threads())
    if (is_better(i, own)) own = i;
  found[thread()] = own;
  sync_block();
  for (int step = threads() / 2; step > 0; step /= 2) {
    if (thread() < step && is_better(found[thread() + step], found[thread()]))
      found[thread()] = found[thread() + step];
    sync_block();
  }
  if (thread() == 0) a.out[block_x()] = found[0];
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_TENSOR_ORDER_KERNELS(X)                             \
  VEERY_GPU_SINGLE(X, kCuda, tensor_sort_pass, SortPassParams, 256)   \
  VEERY_GPU_SINGLE(X, kCuda, tensor_sort_order, SortOrderParams, 256) \
  VEERY_GPU_SINGLE(X, kCuda, tensor_argreduce, ArgReduceParams, 256)
