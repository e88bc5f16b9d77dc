// tensor_matmul.h: matrix products of tensors. Each element is one chain of fma over the inner axis
// in order, as on the CPU.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// One thread block computes kTile x kTile elements of one matrix of the batch, from kDepth columns
/// of a and rows of b at a time. Each of its kSide x kSide threads has a square of kEach elements.
template <int kElementBytes>
struct TensorMatmulShape {
  VEERY_STATIC int kThreads = 256, kSide = 16;
  VEERY_STATIC int kEach = kElementBytes == 4 ? 8 : 4;
  VEERY_STATIC int kTile = kEach * kSide;
  VEERY_STATIC int kDepth = kElementBytes == 4 ? 8 : 16;
};
VEERY_CONSTANT int kMatmulThreads = 256;

/// `type`: veery::ElementType of all operands. Strides are in elements.
struct TensorMatmulParams {
  VEERY_STATIC int kBatchRank = 6;
  const VEERY_DEVICE uint8_t *a, *b;
  VEERY_DEVICE uint8_t* out;  ///< contiguous
  int64_t rows, columns, inner;
  int64_t a_row, a_column, b_row, b_column;
  int64_t batch[kBatchRank], a_batch[kBatchRank], b_batch[kBatchRank];
  int32_t batch_rank, type;
};

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/tensor/element_functions-inl.h"

namespace veery::gpu {

template <typename T>
class TensorMatmul {
 public:
  using Shape = TensorMatmulShape<sizeof(T)>;
  static constexpr int kEach = Shape::kEach, kTile = Shape::kTile, kDepth = Shape::kDepth;
  static constexpr int kThreads = Shape::kThreads, kSide = Shape::kSide;
  static constexpr int kLoads = kTile * kDepth / kThreads;  ///< of a thread, for each operand
  static constexpr int kPadded = kTile + 4;                 ///< a row in shared memory
  static_assert(kThreads == kMatmulThreads);

  VEERY_GPU explicit TensorMatmul(const TensorMatmulParams& a)
      : a_(a), type_(static_cast<ElementType>(a.type)) {}

  VEERY_GPU void run() {
    const int64_t across = (a_.columns + kTile - 1) / kTile, down = (a_.rows + kTile - 1) / kTile;
    int64_t tile = block_x();
    first_column_ = tile % across * kTile;
    tile /= across;
    first_row_ = tile % down * kTile;
    choose_matrix(tile / down);
    load(0);
    for (int64_t k = 0; k < a_.inner; k += kDepth) {
      sync_block();
      put();
      sync_block();
      if (k + kDepth < a_.inner) load(k + kDepth);
      const int64_t left = a_.inner - k;
      if (left >= kDepth) {
        VEERY_UNROLL(2)
        for (int i = 0; i < kDepth; ++i) add(i);
      } else {
        for (int i = 0; i < left; ++i) add(i);
      }
    }
    store();
  }

 private:
  VEERY_GPU void choose_matrix(int64_t index) {
    x_ = y_ = 0;
    out_ = index * a_.rows * a_.columns;
    for (int d = a_.batch_rank - 1; d >= 0; --d) {
      const int64_t rest = index / a_.batch[d], own = index - rest * a_.batch[d];
      x_ += own * a_.a_batch[d];
      y_ += own * a_.b_batch[d];
      index = rest;
    }
  }
  VEERY_GPU T element(const uint8_t* data, int64_t at) const {
    if constexpr (sizeof(T) == 4) {
      if (type_ == ElementType::kBF16)
        return bf16_to_float(reinterpret_cast<const uint16_t*>(data)[at]);
      if (type_ == ElementType::kF16)
        return f16_to_float(reinterpret_cast<const uint16_t*>(data)[at]);
    }
    return reinterpret_cast<const T*>(data)[at];
  }
  // The position of load i in the tile: [inner][line]. Neighbouring threads load neighbours in
  // memory.
  VEERY_GPU void position(int i, bool lines_are_neighbours, int& line, int& depth) const {
    const int at = i * kThreads + thread();
    line = lines_are_neighbours ? at % kTile : at / kDepth;
    depth = lines_are_neighbours ? at / kTile : at % kDepth;
  }
  VEERY_GPU void load(int64_t k) {
    VEERY_UNROLL(8)
    for (int i = 0; i < kLoads; ++i) {
      int line, depth;
      position(i, a_.a_column != 1, line, depth);
      const int64_t row = first_row_ + line;
      x_loads_[i] = row < a_.rows && k + depth < a_.inner
                        ? element(a_.a, x_ + row * a_.a_row + (k + depth) * a_.a_column)
                        : T{0};
    }
    VEERY_UNROLL(8)
    for (int i = 0; i < kLoads; ++i) {
      int line, depth;
      position(i, a_.b_row != 1, line, depth);
      const int64_t column = first_column_ + line;
      y_loads_[i] = column < a_.columns && k + depth < a_.inner
                        ? element(a_.b, y_ + (k + depth) * a_.b_row + column * a_.b_column)
                        : T{0};
    }
  }
  VEERY_GPU T* shared_x() const { return reinterpret_cast<T*>(shared_memory()); }
  VEERY_GPU T* shared_y() const { return shared_x() + kDepth * kPadded; }
  VEERY_GPU void put() {
    VEERY_UNROLL(8)
    for (int i = 0; i < kLoads; ++i) {
      int line, depth;
      position(i, a_.a_column != 1, line, depth);
      shared_x()[depth * kPadded + line] = x_loads_[i];
      position(i, a_.b_row != 1, line, depth);
      shared_y()[depth * kPadded + line] = y_loads_[i];
    }
  }
  // A thread has groups of 4 rows and columns, kSide * 4 apart.
  VEERY_GPU static int place(int group, int i) { return i / 4 * kSide * 4 + group * 4 + i % 4; }
  VEERY_GPU void fragment(const T* from, int group, T (&to)[kEach]) const {
    VEERY_UNROLL(2)
    for (int i = 0; i < kEach; i += 4) {
      const auto four = load_shared<Four<T>>(from + place(group, i));
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  }
  VEERY_GPU void add(int depth) {
    T x[kEach], y[kEach];
    fragment(shared_x() + depth * kPadded, thread() / kSide, x);
    fragment(shared_y() + depth * kPadded, thread() % kSide, y);
    VEERY_UNROLL(8)
    for (int r = 0; r < kEach; ++r) VEERY_UNROLL(8)
    for (int c = 0; c < kEach; ++c) sums_[r][c] = fma(x[r], y[c], sums_[r][c]);
  }
  VEERY_GPU void store() const {
    VEERY_UNROLL(8)
    for (int r = 0; r < kEach; ++r) VEERY_UNROLL(8)
    for (int c = 0; c < kEach; ++c) {
      const int64_t row = first_row_ + place(thread() / kSide, r);
      const int64_t column = first_column_ + place(thread() % kSide, c);
      if (row >= a_.rows || column >= a_.columns) continue;
      T sum = sums_[r][c];
      if constexpr (sizeof(T) == 4)
        if (type_ == ElementType::kBF16) sum = bf16_to_float(float_to_bf16(sum));
      store_word(type_, a_.out, out_ + row * a_.columns + column, to_word<uint64_t>(sum));
    }
  }

  const TensorMatmulParams& a_;
  ElementType type_;
  int64_t first_row_ = 0, first_column_ = 0, x_ = 0, y_ = 0, out_ = 0;
  T x_loads_[kLoads], y_loads_[kLoads];
  T sums_[kEach][kEach] = {};
};

template <typename T>
VEERY_GPU void tensor_matmul(const TensorMatmulParams& a) {
  wait_for_dependencies();
  TensorMatmul<T>(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_TENSOR_MATMUL_KERNELS(X)                                                      \
  X(kCuda, tensor_matmul_f32, TensorMatmulParams, veery::gpu::kMatmulThreads, 2, key::single(), \
    (tensor_matmul<float>))                                                                     \
  X(kCuda, tensor_matmul_f64, TensorMatmulParams, veery::gpu::kMatmulThreads, 2, key::single(), \
    (tensor_matmul<double>))
