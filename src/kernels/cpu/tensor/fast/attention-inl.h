// attention-inl.h: the rows and key blocks of one head of keys, and the scores of a tile of them.
#if defined(VEERY_KERNELS_CPU_TENSOR_FAST_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_TENSOR_FAST_ATTENTION_INL_H
#undef VEERY_KERNELS_CPU_TENSOR_FAST_ATTENTION_INL_H
#else
#define VEERY_KERNELS_CPU_TENSOR_FAST_ATTENTION_INL_H
#endif

#include <limits>

#include "kernels/cpu/tensor/fast/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// The number to subtract from scores before exp() if the largest is `most`. An infinite one would
/// give NaN.
template <typename T>
HWY_INLINE T shift_of(T most) {
  return std::isfinite(most) ? most : T{0};
}

/// A head of keys with the rows that attend to it.
template <typename T>
class AttentionHead {
 public:
  AttentionHead(const AttentionProblem& problem, int64_t index)
      : p_(problem), batch_(index / problem.kv_heads), kv_head_(index % problem.kv_heads) {}

  int64_t query(int64_t row) const { return row / p_.group(); }
  int64_t head(int64_t row) const { return kv_head_ * p_.group() + row % p_.group(); }
  /// The place of a row in arrays [batch, heads, queries].
  int64_t line(int64_t row) const {
    return (batch_ * p_.heads + head(row)) * p_.queries + query(row);
  }
  /// The place of a key in arrays [batch, kv_heads, keys].
  int64_t key_line(int64_t key) const { return (batch_ * p_.kv_heads + kv_head_) * p_.keys + key; }

  /// Whether rows [row, row + rows) may see keys [key, key + keys).
  bool sees(int64_t row, int64_t rows, int64_t key, int64_t keys) const {
    return p_.first_key(query(row)) < key + keys && p_.last_key(query(row + rows - 1)) >= key;
  }

  /// Reads rows of an array [batch, heads, queries, size] to [rows][padded].
  void load_rows(const StridedElements& from, int64_t row, int64_t rows, int64_t size,
                 T* to) const {
    const int64_t padded = round_up(size, kProductColumns);
    for (int64_t i = 0; i < rows; ++i)
      load(from, head(row + i), query(row + i), size, to + i * padded, padded);
  }
  /// Reads a block of an array [batch, kv_heads, keys, size] to [kKeyBlock][padded], with zeros for
  /// keys that are missing.
  void load_block(const StridedElements& from, int64_t key, int64_t size, T* to) const {
    const int64_t padded = round_up(size, kProductColumns), n = std::min(kKeyBlock, p_.keys - key);
    for (int64_t i = 0; i < n; ++i) load(from, kv_head_, key + i, size, to + i * padded, padded);
    std::fill(to + n * padded, to + kKeyBlock * padded, T{0});
  }
  /// Reads a block to [size][kKeyBlock]. `lines`: memory for [kKeyLines][padded].
  void load_transposed(const StridedElements& from, int64_t key, int64_t size, T* lines,
                       T* to) const {
    const int64_t padded = round_up(size, kProductColumns), n = std::min(kKeyBlock, p_.keys - key);
    for (int64_t first = 0; first < kKeyBlock; first += kKeyLines) {
      for (int64_t i = 0; i < kKeyLines; ++i) {
        if (first + i < n)
          load(from, kv_head_, key + first + i, size, lines + i * padded, padded);
        else
          std::fill_n(lines + i * padded, padded, T{0});
      }
      for (int64_t d = 0; d < size; ++d)
        for (int64_t i = 0; i < kKeyLines; ++i)
          to[d * kKeyBlock + first + i] = lines[i * padded + d];
    }
  }

  /// Applies the mask to scores [rows][kKeyBlock] of a tile: keys that a row does not see get
  /// -infinity.
  void mask_scores(int64_t row, int64_t rows, int64_t key, T* scores) const {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = query(row + i);
      T* s = scores + i * kKeyBlock;
      const int64_t begin = std::clamp<int64_t>(p_.first_key(at) - key, 0, kKeyBlock);
      const int64_t end = std::clamp<int64_t>(p_.last_key(at) + 1 - key, begin, kKeyBlock);
      std::fill(s, s + begin, kUnseen);
      std::fill(s + end, s + kKeyBlock, kUnseen);
      if (p_.mask.data != nullptr)
        apply_mask(head(row + i), at, key + begin, end - begin, s + begin);
    }
  }

 private:
  static constexpr T kUnseen = -std::numeric_limits<T>::infinity();

  const std::byte* at(const StridedElements& from, int64_t head, int64_t i) const {
    return from.data + (batch_ * from.strides[0] + head * from.strides[1] + i * from.strides[2]) *
                           info(from.type).bytes;
  }
  void load(const StridedElements& from, int64_t head, int64_t i, int64_t size, T* to,
            int64_t padded) const {
    load_row(at(from, head, i), from.type, from.strides[3], size, to, padded);
  }
  void apply_mask(int64_t head, int64_t query, int64_t key, int64_t n, T* s) const {
    const int64_t stride = p_.mask.strides[3];
    const std::byte* row = at(p_.mask, head, query) + key * stride * info(p_.mask.type).bytes;
    if (p_.mask.type == ElementType::kBool) {
      for (int64_t j = 0; j < n; ++j)
        if (row[j * stride] == std::byte{0}) s[j] = kUnseen;
      return;
    }
    alignas(64) T added[kKeyBlock];
    load_row(row, p_.mask.type, stride, n, added, n);
    for (int64_t j = 0; j < n; ++j) s[j] += added[j];
  }

  const AttentionProblem& p_;
  int64_t batch_, kv_head_;
};

/// scores [rows][kKeyBlock] = a [rows][padded size] block [size][kKeyBlock]
template <typename T>
HWY_INLINE void multiply_block(const T* a, int64_t rows, int64_t size, const T* block, T* scores) {
  const int64_t padded = round_up(size, kProductColumns);
  multiply(Product<T>{.a = a,
                      .a_row = padded,
                      .a_step = 1,
                      .b = block,
                      .b_row = kKeyBlock,
                      .c = scores,
                      .c_row = kKeyBlock,
                      .rows = rows,
                      .columns = kKeyBlock,
                      .inner = size});
}
/// sums [rows][padded size] += weights [rows][kKeyBlock] block [kKeyBlock][padded size]
template <typename T>
HWY_INLINE void add_weighted(const T* weights, int64_t rows, int64_t keys, int64_t size,
                             const T* block, T* sums) {
  const int64_t padded = round_up(size, kProductColumns);
  multiply(Product<T>{.a = weights,
                      .a_row = kKeyBlock,
                      .a_step = 1,
                      .b = block,
                      .b_row = padded,
                      .c = sums,
                      .c_row = padded,
                      .rows = rows,
                      .columns = padded,
                      .inner = keys,
                      .add = true});
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_TENSOR_FAST_ATTENTION_INL_H
