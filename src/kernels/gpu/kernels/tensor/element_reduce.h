// element_reduce.h: reductions of element programs, in the order of veery::ElementReduction.
#pragma once
#include "kernels/gpu/params/tensor_params.h"

namespace veery::gpu {

VEERY_CONSTANT int kReduceThreads = 256;
VEERY_CONSTANT int kChunkElements = 4096, kSumLanes = 16;

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/tensor/element_steps-inl.h"

namespace veery::gpu {

template <typename Word, int kElements>
class ElementReducer {
 public:
  VEERY_GPU explicit ElementReducer(const ElementReduceParams& a) : a_(a), program_(a.steps) {}

  /// 16 threads have a chunk, each a partial sum: they read neighbours, and add without exchanging
  /// anything.
  VEERY_GPU void run_by_lanes() {
    const int64_t item = (int64_t{block_x()} * threads() + thread()) / kSumLanes;
    const bool is_there = item < a_.kept * a_.chunks;
    const int64_t kept = is_there ? item / a_.chunks : 0, chunk = item - kept * a_.chunks;
    const int lane = thread() % kSumLanes;
    Word sum = static_cast<Word>(a_.neutral);
    const int count = is_there ? elements_of(chunk) : 0;
    for (int at = lane; at < count; at += kSumLanes * kElements) {
      const int there = (count - at + kSumLanes - 1) / kSumLanes;
      program_.run({kept * a_.reduced + chunk * kChunkElements + at, kSumLanes, there});
      sum = there >= kElements && is_sum_of_f32() ? add_all(sum) : combine_all(sum, there);
    }
    sync_warp();
    for (int mask = kSumLanes / 2; mask > 0; mask /= 2) sum = combine(sum, shuffle_xor(sum, mask));
    if (is_there && lane == 0) store(kept, chunk, sum);
  }

  /// A thread has a chunk of one kept element; its partial sums are in shared memory. Threads read
  /// neighbours where the kept elements are neighbours.
  VEERY_GPU void run_by_thread() {
    const int64_t kept = block_x() / a_.chunks * threads() + thread();
    const int64_t chunk = block_x() % a_.chunks;
    if (kept >= a_.kept) return;
    for (int i = 0; i < kSumLanes; ++i) *lane_sum(i) = static_cast<Word>(a_.neutral);
    const int count = elements_of(chunk);
    for (int at = 0; at < count; at += kElements) {
      program_.run({kept * a_.reduced + chunk * kChunkElements + at, 1, count - at});
      if (count - at >= kElements && is_sum_of_f32()) {
        VEERY_UNROLL(8)
        for (int i = 0; i < kElements; ++i) {
          Word* const sum = lane_sum(at % kSumLanes + i);
          *sum = add_f32(*sum, program_.value(i));
        }
        continue;
      }
      VEERY_UNROLL(8)
      for (int i = 0; i < kElements; ++i)
        if (i < count - at) {
          Word* const sum = lane_sum(at % kSumLanes + i);
          *sum = combine(*sum, program_.value(i));
        }
    }
    for (int step = kSumLanes / 2; step > 0; step /= 2)
      for (int i = 0; i < step; ++i) *lane_sum(i) = combine(*lane_sum(i), *lane_sum(i + step));
    store(kept, chunk, *lane_sum(0));
  }

 private:
  VEERY_GPU int elements_of(int64_t chunk) const {
    const int64_t left = a_.reduced - chunk * kChunkElements;
    return left < kChunkElements ? static_cast<int>(left) : kChunkElements;
  }
  // Sums of f32 are the usual reduction; they take no branch per element.
  VEERY_GPU bool is_sum_of_f32() const {
    return static_cast<ReduceOp>(a_.op) == ReduceOp::kSum &&
           static_cast<ElementType>(a_.type) == ElementType::kF32;
  }
  static VEERY_GPU Word add_f32(Word a, Word b) {
    return to_word<Word>(from_word<float>(a) + from_word<float>(b));
  }
  VEERY_GPU Word add_all(Word sum) const {
    VEERY_UNROLL(8)
    for (int i = 0; i < kElements; ++i) sum = add_f32(sum, program_.value(i));
    return sum;
  }
  VEERY_GPU Word combine_all(Word sum, int there) const {
    VEERY_UNROLL(8)
    for (int i = 0; i < kElements; ++i)
      if (i < there) sum = combine(sum, program_.value(i));
    return sum;
  }
  VEERY_GPU Word combine(Word a, Word b) const {
    return combined(static_cast<ReduceOp>(a_.op), static_cast<ElementType>(a_.type), a, b);
  }
  VEERY_GPU Word* lane_sum(int lane) const {
    const int64_t slots = int64_t{a_.slots} * kElements;
    return reinterpret_cast<Word*>(shared_memory()) + (slots + lane) * threads() + thread();
  }
  VEERY_GPU void store(int64_t kept, int64_t chunk, Word sum) const {
    store_word(static_cast<ElementType>(a_.type), a_.results, kept * a_.chunks + chunk, sum);
  }

  const ElementReduceParams& a_;
  ElementInterpreter<Word, kElements, SpacedElements> program_;
};

template <typename Word, int kElements>
VEERY_GPU void element_reduce(const ElementReduceParams& a) {
  wait_for_dependencies();
  ElementReducer<Word, kElements> reducer(a);
  if (a.by_thread != 0)
    reducer.run_by_thread();
  else
    reducer.run_by_lanes();
}

VEERY_GPU void reduce_tree(const ReduceTreeParams& a) {
  wait_for_dependencies();
  const int64_t groups = (a.count + kTreeElements - 1) / kTreeElements;
  const int64_t row = block_x() / groups, group = block_x() % groups;
  const int64_t first = group * kTreeElements;
  const auto type = static_cast<ElementType>(a.type);
  auto* values = reinterpret_cast<uint64_t*>(shared_memory());
  const int64_t rest = a.count - first;
  int count = rest < kTreeElements ? static_cast<int>(rest) : kTreeElements;
  for (int i = thread(); i < count; i += threads())
    values[i] = load_word<uint64_t>(type, a.x, row * a.count + first + i);
  sync_block();
  while (count > 1) {
    const int i = thread();
    uint64_t value = 0;
    if (2 * i < count) value = values[2 * i];
    if (2 * i + 1 < count)
      value = combined(static_cast<ReduceOp>(a.op), type, value, values[2 * i + 1]);
    sync_block();
    if (2 * i < count) values[i] = value;
    sync_block();
    count = (count + 1) / 2;
  }
  if (thread() == 0) store_word(type, a.out, row * groups + group, values[0]);
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ELEMENT_REDUCE_KERNELS(X)                                                        \
  X(kCuda, element_reduce, ElementReduceParams, veery::gpu::kReduceThreads, 2, key::single(),      \
    (element_reduce<uint32_t, 8>))                                                                 \
  X(kCuda, element_reduce_wide, ElementReduceParams, veery::gpu::kReduceThreads, 2, key::single(), \
    (element_reduce<uint64_t, 4>))                                                                 \
  VEERY_GPU_SINGLE(X, kCuda, reduce_tree, ReduceTreeParams, 256)
