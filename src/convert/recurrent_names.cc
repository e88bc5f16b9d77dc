#include "convert/recurrent_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "convert/gguf_keys.h"
#include "file/folder/row_sources.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

/// The tensors of one layer.
class Layer {
 public:
  Layer(ModelFile& file, int32_t layer) : file_(file), prefix_(fmt::format("blk.{}.", layer)) {}

  TensorView* find(std::string_view part) {
    const auto found = std::ranges::find(file_.tensors, name(part), &TensorView::name);
    return found == file_.tensors.end() ? nullptr : &*found;
  }
  void rename(std::string_view from, std::string_view to) {
    if (TensorView* tensor = find(from)) tensor->name = name(to);
  }
  /// Concatenates those of `parts` that exist, as `joint`.
  void join(std::initializer_list<std::string> parts, std::string_view joint) {
    std::vector<TensorView> found;
    for (const std::string& part : parts)
      if (TensorView* tensor = find(part)) found.push_back(*tensor);
    if (found.empty()) return;
    std::erase_if(file_.tensors, [&](const TensorView& tensor) {
      return std::ranges::find(found, tensor.name, &TensorView::name) != found.end();
    });
    file_.tensors.push_back(join_rows(std::move(found), name(joint)));
  }
  void reorder(std::string_view part, const std::vector<int64_t>& order) {
    if (TensorView* tensor = find(part)) *tensor = reordered_rows(*tensor, order);
  }
  void reorder_columns(std::string_view part, const std::vector<int64_t>& order) {
    if (TensorView* tensor = find(part))
      *tensor = transposed(reordered_rows(transposed(*tensor), order));
  }
  /// Transposes a matrix to f32: convolutions become (channels, width).
  void transpose_convolution(std::string_view part) {
    if (TensorView* tensor = find(part)) *tensor = transposed(decoded(*tensor));
  }
  /// Converts a small tensor to f32 with another shape and name.
  void small(std::string_view from, std::string_view to, std::vector<int64_t> shape) {
    TensorView* tensor = find(from);
    if (tensor == nullptr) return;
    *tensor = reshaped(decoded(*tensor), std::move(shape));
    tensor->name = name(to);
  }
  std::string name(std::string_view part) const { return fmt::format("{}{}", prefix_, part); }

 private:
  ModelFile& file_;
  std::string prefix_;
};

// Returns the order that regroups rows sorted by part into groups that contain all parts.
std::vector<int64_t> groups_of_parts(int64_t groups, std::initializer_list<int64_t> sizes) {
  std::vector<int64_t> order;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      for (int64_t i = 0; i < size; ++i) order.push_back(begin + group * size + i);
      begin += groups * size;
    }
  }
  return order;
}

// Returns the order that converts value heads (`size` rows each) grouped by key head to tiled ones:
// the first value head of each key head, then the second, and so on.
std::vector<int64_t> tiled_heads(const RecurrentConfig& r, int64_t size, int64_t before = 0) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < before; ++i) order.push_back(i);
  const int64_t group = r.heads / r.key_heads;
  for (int64_t value = 0; value < group; ++value)
    for (int64_t key = 0; key < r.key_heads; ++key)
      for (int64_t i = 0; i < size; ++i) order.push_back(before + (key * group + value) * size + i);
  return order;
}

void tile_value_heads(Layer& layer, const RecurrentConfig& r) {
  layer.reorder("attn_qkv.weight", tiled_heads(r, r.value_size, 2 * r.keys()));
  layer.reorder("ssm_conv1d.weight", tiled_heads(r, r.value_size, 2 * r.keys()));
  layer.reorder("attn_gate.weight", tiled_heads(r, r.value_size));
  layer.reorder_columns("ssm_out.weight", tiled_heads(r, r.value_size));
  for (const char* part : {"ssm_beta.weight", "ssm_alpha.weight", "ssm_dt.bias", "ssm_a"})
    layer.reorder(part, tiled_heads(r, 1));
}

void name_delta(Layer layer, const TransformerConfig& c, bool recurrent) {
  const RecurrentConfig& r = c.recurrent;
  if (!recurrent) {  // each head's gate follows its query
    for (const char* kind : {".weight", ".bias"}) {
      const std::string q = std::string("attn_q") + kind;
      const bool gated = layer.find(std::string("attn_gate") + kind) != nullptr;
      layer.join({q, std::string("attn_gate") + kind}, q);
      if (gated)
        layer.reorder(
            q, groups_of_parts(c.attention.heads, {c.attention.head_dim, c.attention.head_dim}));
    }
    return;
  }
  layer.rename("ssm_qkv.weight", "attn_qkv.weight");
  layer.rename("ssm_gate.weight", "attn_gate.weight");
  layer.small("ssm_alpha.bias", "ssm_dt.bias", {r.heads});
  layer.small("ssm_a.weight", "ssm_a", {r.heads});
  layer.transpose_convolution("ssm_conv1d.weight");
  const int64_t group = r.heads / r.key_heads;
  if (c.architecture == "qwen3next") {
    layer.join({"ssm_beta.weight", "ssm_alpha.weight"}, "ssm_ba.weight");
    layer.reorder("ssm_ba.weight", groups_of_parts(r.key_heads, {group, group}));
  } else if (group > 1) {
    tile_value_heads(layer, r);
  }
}

// Returns zeros with one element for each row of `tensor`.
TensorView zeros_of(const TensorView& tensor, std::string name) {
  TensorView zeros = tensor;
  zeros.name = std::move(name);
  zeros.dtype = DType::kF32;
  zeros.data = {};
  const auto bytes = static_cast<size_t>(tensor.elements()) * sizeof(float);
  zeros.source = make_bytes(std::vector<std::byte>(bytes), bytes);
  return zeros;
}

void name_mamba2(ModelFile& file, Layer layer, const RecurrentConfig& r) {
  layer.join({"ssm_gate.weight", "ssm_xbc.weight", "ssm_dt.weight"}, "ssm_in.weight");
  layer.small("ssm_dt.bias", "ssm_dt.bias", {r.heads});
  for (const char* part : {"ssm_gate.bias", "ssm_xbc.bias"})
    if (TensorView* bias = layer.find(part)) *bias = decoded(*bias);
  // Both forms store the step bias in one place, so the joint projection bias has zeros for the
  // steps.
  if (layer.find("ssm_gate.bias") != nullptr && layer.find("ssm_dt.bias") != nullptr) {
    file.tensors.push_back(zeros_of(*layer.find("ssm_dt.bias"), layer.name("ssm_no_step.bias")));
    layer.join({"ssm_gate.bias", "ssm_xbc.bias", "ssm_no_step.bias"}, "ssm_in.bias");
  }
  layer.small("ssm_a.weight", "ssm_a", {r.heads, 1});
  layer.small("ssm_d.weight", "ssm_d", {r.heads, 1});
  layer.transpose_convolution("ssm_conv1d.weight");
  layer.small("ssm_norm.weight", "ssm_norm.weight", {r.groups, r.values() / r.groups});
}

void name_mamba1(Layer layer, const RecurrentConfig& r) {
  for (const char* kind : {".weight", ".bias"})
    layer.join({std::string("ssm_value") + kind, std::string("ssm_gate") + kind},
               std::string("ssm_in") + kind);
  layer.transpose_convolution("ssm_conv1d.weight");
  layer.transpose_convolution("ssm_a.weight");
  layer.small("ssm_a.weight", "ssm_a", {r.values(), r.key_size});
  layer.small("ssm_d.weight", "ssm_d", {r.values()});
}

// llama.cpp requires the (unused) value mix of the first layer too.
void name_rwkv7(ModelFile& file, Layer layer, const TransformerConfig& c, bool is_first) {
  for (const char* kind : {".weight", ".bias"})
    layer.rename(std::string("ffn_norm") + kind, std::string("attn_norm_2") + kind);
  const int64_t dim = c.dim;
  for (const char* part : {"time_mix_w", "time_mix_a", "time_mix_v"})
    layer.small(std::string(part) + "2.bias", std::string(part) + "0.weight", {dim});
  for (const char* part : {"time_mix_lerp_r", "time_mix_lerp_w", "time_mix_lerp_k",
                           "time_mix_lerp_v", "time_mix_lerp_a", "time_mix_lerp_g"})
    layer.small(std::string(part) + ".weight", std::string(part) + ".weight", {1, dim});
  layer.join({"time_mix_lerp_r.weight", "time_mix_lerp_w.weight", "time_mix_lerp_k.weight",
              "time_mix_lerp_v.weight", "time_mix_lerp_a.weight", "time_mix_lerp_g.weight"},
             "time_mix_lerp_fused.weight");
  layer.small("time_mix_lerp_fused.weight", "time_mix_lerp_fused.weight", {6, 1, 1, dim});
  for (const char* part : {"0", "1", "2"}) {
    const TensorView* from = layer.find(fmt::format("time_mix_a{}.weight", part));
    if (!is_first || from == nullptr) continue;
    TensorView copy = *from;
    copy.name = layer.name(fmt::format("time_mix_v{}.weight", part));
    file.tensors.push_back(std::move(copy));
  }
}

void name_kda(Layer layer, const RecurrentConfig& r) {
  const int64_t channels[] = {r.keys(), r.keys(), r.values()};
  const char* const names[] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"};
  for (size_t i = 0; i < std::size(names); ++i) {
    layer.transpose_convolution(names[i]);
    layer.small(names[i], names[i], {channels[i], 1, r.conv_width});
  }
  layer.small("ssm_f_b.bias", "ssm_dt.bias", {r.keys()});
  layer.small("ssm_a.weight", "ssm_a", {r.heads, 1});
}

}  // namespace

void fold_multipliers(ModelFile& file, const TransformerConfig& c) {
  if (!find_architecture(c.architecture).parallel_mixers) return;
  if (c.output.tied && (c.input.scale != 1 || c.output.scale != 1)) {
    TensorView head = file.at("token_embd.weight");
    head.name = "output.weight";
    file.tensors.push_back(std::move(head));
  }
  const Multipliers& m = c.multipliers;
  // Factors on the input of a projection do not affect its bias.
  struct Row {
    std::string_view part;
    float in, out;
  };
  const Row rows[] = {{"attn_q", m.attention_in, 1},
                      {"attn_k", m.attention_in, m.keys},
                      {"attn_v", m.attention_in, 1},
                      {"attn_output", 1, m.attention_out},
                      {"ssm_gate", m.recurrent_in, m.recurrent_gate},
                      {"ssm_xbc", m.recurrent_in, 1},
                      {"ssm_dt", m.recurrent_in, 1},
                      {"ssm_out", 1, m.recurrent_out},
                      {"ffn_gate", 1, m.gate},
                      {"ffn_down", 1, m.down}};
  for (TensorView& tensor : file.tensors) {
    if (tensor.name == "token_embd.weight") tensor = with_factor(tensor, c.input.scale);
    if (tensor.name == "output.weight") tensor = with_factor(tensor, c.output.scale);
    if (!tensor.name.starts_with("blk.")) continue;
    // The parts of this projection are joined later, so they need one type.
    if (tensor.name.find(".ssm_gate.") != std::string::npos ||
        tensor.name.find(".ssm_xbc.") != std::string::npos ||
        tensor.name.find(".ssm_dt.") != std::string::npos)
      tensor = decoded(tensor);
    for (const Row& row : rows) {
      if (tensor.name.ends_with(fmt::format(".{}.weight", row.part)))
        tensor = with_factor(tensor, row.in * row.out);
      if (tensor.name.ends_with(fmt::format(".{}.bias", row.part)))
        tensor = with_factor(tensor, row.out);
    }
  }
}

void name_recurrent(ModelFile& file, const TransformerConfig& c) {
  const RecurrentConfig& r = c.recurrent;
  const int32_t further = r.mixer == Mixer::kDelta ? c.mtp_layers : 0;
  for (int32_t i = 0; i < c.layers + further && r.mixer != Mixer::kNone; ++i) {
    const Layer layer(file, i);
    const bool recurrent = i < c.layers && c.is_recurrent(i);
    if (r.mixer == Mixer::kDelta) name_delta(layer, c, recurrent);
    if (!recurrent) continue;
    if (r.mixer == Mixer::kRwkv7) name_rwkv7(file, layer, c, i == 0);
    if (r.mixer == Mixer::kMamba1) name_mamba1(layer, r);
    if (r.mixer == Mixer::kMamba2) name_mamba2(file, layer, r);
    if (r.mixer == Mixer::kKda) name_kda(layer, r);
    if (r.mixer == Mixer::kShortConv) Layer(layer).transpose_convolution("shortconv.conv.weight");
  }
  // llama.cpp names LFM2's last norm like a norm after the embedding.
  if (r.mixer == Mixer::kShortConv)
    for (TensorView& tensor : file.tensors)
      if (tensor.name == "output_norm.weight") tensor.name = "token_embd_norm.weight";
}

}  // namespace veery
