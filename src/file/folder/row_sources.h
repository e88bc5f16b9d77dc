// row_sources.h: tensors whose values are computed from what a file holds.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// The same bytes at an address that fits their type.
std::shared_ptr<const RowSource> make_copy(std::span<const std::byte> data, size_t row_bytes);

/// Bytes that are held with it.
std::shared_ptr<const RowSource> make_bytes(std::vector<std::byte> bytes, size_t row_bytes);

/// `tensor` (a norm's weight of a plain float type) with `addend` added to each element, as f32.
/// The tensor's data must outlive the result.
std::shared_ptr<const RowSource> make_sum(const TensorView& tensor, float addend);

/// `tensor` with `addend` added to each element, as make_sum does it; the opposite of an earlier
/// one gives what was added to.
TensorView with_added(const TensorView& tensor, float addend);

/// `tensor` times `factor`, as f32; itself where that is 1.
TensorView with_factor(const TensorView& tensor, float factor);

/// Writes the rows [first, last) of a tensor that may be computed.
void read_rows(const TensorView& tensor, int64_t first, int64_t last, std::byte* out);

/// The rows [begin, end) of `tensor` under another name.
TensorView slice_rows(const TensorView& tensor, std::string name, int64_t begin, int64_t end);

/// The same values as f32. Throws kUnsupported naming a tensor whose type has no values.
TensorView decoded(const TensorView& tensor);

/// The same values in a type that GGUF has: groups of up to 5 bits become Q4_1 or Q5_1 where f16
/// holds their scales, what has no other such type becomes f32.
TensorView in_ggml_type(const TensorView& tensor);

/// `tensor` (..., rows, cols) as (..., cols, rows); of a type with blocks it becomes f32.
TensorView transposed(const TensorView& tensor);

/// `tensor` with its rows (the elements of a vector) in another order: row i is row order[i] of it.
/// Throws kFormat if there are not as many.
TensorView reordered_rows(const TensorView& tensor, std::span<const int64_t> order);

/// Rows of `tensor`, all its rows counted through: of every `period` of them those from `begin` on,
/// `step` apart. `shape` is that of the result.
struct RowPick {
  int64_t period = 1, begin = 0, step = 1;
};
TensorView pick_rows(const TensorView& tensor, std::string name, std::vector<int64_t> shape,
                     const RowPick& pick);

/// Rows of heads of `head_dim` (elements of a vector) whose first `dims` form pairs half of `dims`
/// apart, with the two of a pair side by side. Throws kFormat if heads do not divide the rows.
TensorView paired_rows(const TensorView& tensor, int64_t head_dim, int64_t dims);

/// A small tensor with another shape of as many elements; what is computed is so now.
TensorView reshaped(const TensorView& tensor, std::vector<int64_t> shape);

/// Tensors of one type and row size, one below the other. Throws kFormat naming the tensor that
/// differs.
TensorView join_rows(std::vector<TensorView> parts, std::string name);

/// Tensors of one type and shape, one below the other: one dimension more. Throws kFormat naming
/// the tensor that differs.
TensorView stack_tensors(std::vector<TensorView> parts, std::string name);

/// fp8 values (n, k) times scales: FP8_128 or FP8_32; as f32 where these do not fit (e5m2, odd
/// widths, scales of 128 and more). `scale` has one number, one for each row ((n) or (n, 1)), or
/// (a, b): one for each block of `block_rows` x `block_cols`. Throws kFormat naming the tensor if
/// the shapes do not fit. The format: e4m3fn and e5m2 of Micikevicius et al., arXiv:2209.05433.
struct Fp8Blocks {
  int64_t rows = 0, cols = 0;  ///< 0: worked out from the shapes
};
TensorView make_fp8_view(const StoredTensor& values, const StoredTensor* scale,
                         const Fp8Blocks& blocks);

/// One value. Source: arXiv:2209.05433, table 1; e4m3 without infinities.
float fp8_e4m3_to_f32(uint8_t bits);
float fp8_e5m2_to_f32(uint8_t bits);

}  // namespace veery
