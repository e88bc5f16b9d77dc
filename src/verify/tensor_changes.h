// tensor_changes.h: modifications of the tensors of an opened model, for hypotheses.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"
#include "model/config.h"

namespace veery {

/// Returns a modified tensor.
using TensorChange = std::function<TensorView(const TensorView&)>;

/// Returns whether the file has a tensor of `part`, the end of a name: "attn_q.weight" of
/// "blk.3.attn_q.weight", but not of longer words.
bool has_part(const ModelFile& file, std::string_view part);
/// Returns whether all tensors of the part are square matrices of a type that can be transposed.
bool is_square(const ModelFile& file, std::string_view part);
/// Returns whether both parts exist with the same shapes.
bool can_swap(const ModelFile& file, std::string_view one, std::string_view other);

void change_parts(ModelFile& file, std::span<const std::string> parts, const TensorChange& change);
void drop_parts(ModelFile& file, const std::vector<std::string>& parts);
void swap_parts(ModelFile& file, std::string_view one, std::string_view other);

/// Swaps all tensors of two layers.
void swap_layers(ModelFile& file, int32_t one, int32_t other);

/// Returns a change that reorders the rotated rows of each head between split and interleaved
/// pairs.
TensorChange pair_order(const TransformerConfig& config, bool to_neighbours);
TensorChange added(float addend);
TensorChange turned();

}  // namespace veery
