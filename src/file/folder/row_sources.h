// row_sources.h: tensors whose values are computed from the contents of a file.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// Returns a copy of `data` at an address that is aligned for its type.
std::shared_ptr<const RowSource> make_copy(std::span<const std::byte> data, size_t row_bytes);

/// Returns a source that owns `bytes`.
std::shared_ptr<const RowSource> make_bytes(std::vector<std::byte> bytes, size_t row_bytes);

/// Returns `tensor` (the weight of a norm, of a plain float type) with `addend` added to each
/// element, as f32. The tensor's data must outlive the result.
std::shared_ptr<const RowSource> make_sum(const TensorView& tensor, float addend);

/// As make_sum(), as a tensor. Adding the negated addend to such a result returns the original.
TensorView with_added(const TensorView& tensor, float addend);

/// Returns `tensor` times `factor` as f32, or `tensor` itself if the factor is 1.
TensorView with_factor(const TensorView& tensor, float factor);

/// Writes the rows [first, last) of a stored or computed tensor to `out`.
void read_rows(const TensorView& tensor, int64_t first, int64_t last, std::byte* out);

/// Returns the rows [begin, end) of `tensor` under another name.
TensorView slice_rows(const TensorView& tensor, std::string name, int64_t begin, int64_t end);

/// Returns the same values as f32. Throws kUnsupported naming a tensor whose type cannot be
/// decoded.
TensorView decoded(const TensorView& tensor);

/// Returns the same values in a type that GGUF supports: affine groups of up to 5 bits become Q4_1
/// or Q5_1 if their scales fit f16; other types without a GGUF equivalent become f32.
TensorView in_ggml_type(const TensorView& tensor);

/// Returns `tensor` (..., rows, cols) as (..., cols, rows); block types become f32.
TensorView transposed(const TensorView& tensor);

/// Returns `tensor` with its rows (elements of a vector) reordered: row i is row order[i] of
/// `tensor`. Throws kFormat if `order` has another number of rows.
TensorView reordered_rows(const TensorView& tensor, std::span<const int64_t> order);

/// A periodic selection of rows: within each period of `period` rows, those from `begin` on, `step`
/// apart.
struct RowPick {
  int64_t period = 1, begin = 0, step = 1;
};
/// Returns the selected rows as a tensor of shape `shape`. Rows are counted over all leading
/// dimensions of `tensor`; the shape determines the number of rows per period.
TensorView pick_rows(const TensorView& tensor, std::string name, std::vector<int64_t> shape,
                     const RowPick& pick);

/// Converts rotary pairs from split to interleaved order. Rows come in heads of `head_dim`
/// (elements of a vector); in the first `dims` rows of a head, pairs are dims / 2 apart before and
/// adjacent after. Throws kFormat if heads do not divide the rows.
TensorView paired_rows(const TensorView& tensor, int64_t head_dim, int64_t dims);

/// Returns a small tensor with another shape of the same size; computed rows are evaluated now.
TensorView reshaped(const TensorView& tensor, std::vector<int64_t> shape);

/// Concatenates tensors of one type and row size along the rows. Throws kFormat naming the tensor
/// that differs.
TensorView join_rows(std::vector<TensorView> parts, std::string name);

/// Stacks tensors of one type and shape along a new first dimension. Throws kFormat naming the
/// tensor that differs.
TensorView stack_tensors(std::vector<TensorView> parts, std::string name);

/// Returns fp8 values (n, k) times their scales as FP8_128 or FP8_32, or as f32 if these cannot
/// represent them (e5m2, odd widths, scales of 128 or more). `scale` has one number, one per row
/// ((n) or (n, 1)), or (a, b): one per block of `blocks.rows` x `blocks.cols`. Throws kFormat
/// naming the tensor if the shapes do not fit. Formats: e4m3fn and e5m2 of Micikevicius et al.,
/// arXiv:2209.05433.
struct Fp8Blocks {
  int64_t rows = 0, cols = 0;  ///< 0: derived from the shapes
};
TensorView make_fp8_view(const StoredTensor& values, const StoredTensor* scale,
                         const Fp8Blocks& blocks);

/// Decode one value. Source: arXiv:2209.05433, table 1; e4m3 has no infinities.
float fp8_e4m3_to_f32(uint8_t bits);
float fp8_e5m2_to_f32(uint8_t bits);

}  // namespace veery
