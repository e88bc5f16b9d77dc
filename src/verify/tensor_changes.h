// tensor_changes.h: the tensors of an opened model in other forms, for hypotheses.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"
#include "model/config.h"

namespace veery {

/// The same tensor in another form.
using TensorChange = std::function<TensorView(const TensorView&)>;

/// A part is the end of names, "attn_q.weight" of "blk.3.attn_q.weight" and of nothing else.
bool has_part(const ModelFile& file, std::string_view part);
/// Whether all tensors of the part are square matrices of a type that can be turned.
bool is_square(const ModelFile& file, std::string_view part);
/// Whether both are there, in the same shapes.
bool can_swap(const ModelFile& file, std::string_view one, std::string_view other);

void change_parts(ModelFile& file, std::span<const std::string> parts, const TensorChange& change);
void drop_parts(ModelFile& file, const std::vector<std::string>& parts);
void swap_parts(ModelFile& file, std::string_view one, std::string_view other);

/// Exchanges all tensors of two layers.
void swap_layers(ModelFile& file, int32_t one, int32_t other);

/// Rows of heads in the other order of pairs, of the part that RoPE turns.
TensorChange pair_order(const TransformerConfig& config, bool to_neighbours);
TensorChange added(float addend);
TensorChange turned();

}  // namespace veery
