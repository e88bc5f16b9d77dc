#include "convert/folder_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "convert/gguf_keys.h"
#include "file/folder/row_sources.h"
#include "import/folder/described.h"
#include "import/folder/folder_config.h"
#include "import/recurrent_tensors.h"
#include "import/unused_tensors.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

// Tensors whose contents are in config.json instead.
constexpr std::string_view kInConfig[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                          "rope_factors_long.weight"};

// Folder types that cannot be written, because no table describes their experts or joint
// projections.
constexpr std::string_view kUnwritten[] = {"ernie4_5_moe", "internlm2", "falcon",    "bloom",
                                           "mpt",          "opt",       "falcon_h1", "xlstm_lm"};

TensorView plain(const TensorView& tensor) {
  return info(tensor.dtype).block == 1 ? tensor : decoded(tensor);
}

// Decodes tensors of different types to floats.
void make_alike(std::vector<TensorView>& parts) {
  if (std::ranges::all_of(parts, [&](const TensorView& t) { return t.dtype == parts[0].dtype; }))
    return;
  for (TensorView& part : parts) part = decoded(part);
}

/// The tensors of a model while they are converted to a folder; they have GGUF names until the end.
class FolderTensorBuilder {
 public:
  FolderTensorBuilder(const ModelFile& file, const TransformerConfig& c, const FolderType& type,
                      FolderKind kind)
      : file_(file), c_(c), type_(type), kind_(kind), tensors_(file.tensors) {
    // MTP layers are not part of the folder's model.
    std::erase_if(tensors_, [&](const TensorView& tensor) {
      if (layer_part(tensor.name).first < c.layers) return false;
      left_out_.push_back(tensor.name);
      return true;
    });
    std::erase_if(tensors_, [&](const TensorView& tensor) {
      return std::ranges::find(kInConfig, tensor.name) != std::end(kInConfig) ||
             (c.output.tied && tensor.name.starts_with("output."));
    });
    // mlx-lm's class always has a separate output head.
    if (c.output.tied && type.type == "gpt_oss" && kind == FolderKind::kMlx) {
      tensors_.push_back(file.at("token_embd.weight"));
      tensors_.back().name = "output.weight";
    }
    for (TensorView& tensor : tensors_) restore(tensor);
    for (int32_t layer = 0; layer < c.layers; ++layer) {
      const std::string prefix = fmt::format("blk.{}.", layer);
      join_projections(prefix);
      restore_recurrent(layer, prefix);
      if (type.type == "stablelm") separate_head_norms(prefix);
      const bool joint = kind == FolderKind::kHuggingFace || type.type == "deepseek_v2";
      if (c.latent.rank > 0 && joint) join_latent(prefix);
      if (const MixtureNames* mixture = mixture_names(type);
          mixture != nullptr && kind == FolderKind::kHuggingFace)
        separate_experts(prefix, *mixture);
    }
  }

  FolderTensors named() const {
    FolderTensors result;
    result.left_out = left_out_;
    for (const TensorView& tensor : tensors_) {
      std::string name = folder_name(type_, kind_, tensor.name);
      if (name.empty()) {
        if (file_.container == Container::kGguf || tensor.name.starts_with("blk."))
          throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' is not part of a {} folder",
                      file_.path, printable(tensor.name), type_.type);
        result.left_out.push_back(tensor.name);
        continue;
      }
      FolderTensor& out = result.tensors.emplace_back();
      out.view = tensor;
      out.view.name = std::move(name);
      if (std::ranges::find(transposed_, tensor.name) != transposed_.end())
        out.together = tensor.shape[tensor.shape.size() - 2];
    }
    return result;
  }

 private:
  // For some families, GGUF files have interleaved RoPE pairs, folders have split ones.
  bool permuted() const {
    return file_.container == Container::kGguf && c_.positions.interleaved && c_.latent.rank == 0 &&
           !find_architecture(c_.architecture).positions.interleaved;
  }

  void restore(TensorView& tensor) {
    const auto is = [&](std::string_view part) {
      return tensor.name.find(part) != std::string::npos;
    };
    if (permuted() && (is(".attn_q.") || is(".attn_k.")))
      tensor = reordered_rows(tensor,
                              halves(is(".attn_q.") ? c_.attention.heads : c_.attention.kv_heads));
    // mlx-lm keeps the added 1 in the norms of Qwen 3.5.
    const bool less_one = (c_.architecture.starts_with("gemma") && c_.architecture != "gemma4") ||
                          c_.architecture == "nemotron" ||
                          (c_.recurrent.mixer == Mixer::kDelta && kind_ != FolderKind::kMlx);
    if (less_one && tensor.name.ends_with("norm.weight") && !is(".ssm_norm."))
      tensor = with_added(tensor, -1);
    if (c_.norms.qk == QkNorm::kOwn && (is(".attn_q_norm.") || is(".attn_k_norm.")))
      tensor = reshaped(tensor, {tensor.elements() / c_.attention.head_dim, c_.attention.head_dim});
    if (is(".xielu_beta.") || is(".xielu_eps.")) tensor.shape.clear();
    if (type_.type == "gpt2" && kind_ == FolderKind::kHuggingFace &&
        (is(".attn_output.w") || is(".ffn_up.w") || is(".ffn_down.w")))
      transpose(tensor);
  }

  std::vector<int64_t> halves(int32_t heads) const {
    std::vector<int64_t> order;
    const int64_t half = c_.positions.rope.dims / 2;
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t part = 0; part < 2; ++part)
        for (int64_t pair = 0; pair < half; ++pair)
          order.push_back(head * c_.attention.head_dim + 2 * pair + part);
      for (int64_t i = 2 * half; i < c_.attention.head_dim; ++i)
        order.push_back(head * c_.attention.head_dim + i);
    }
    return order;
  }

  void transpose(TensorView& tensor) {
    tensor = transposed(plain(tensor));
    transposed_.push_back(tensor.name);
  }

  std::optional<TensorView> take(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &TensorView::name);
    if (found == tensors_.end()) return std::nullopt;
    TensorView tensor = std::move(*found);
    tensors_.erase(found);
    return tensor;
  }

  // Joins those tensors of a layer that exist, under another name.
  TensorView* join(const std::string& prefix, std::initializer_list<const char*> parts,
                   const std::string& name, const char* kind) {
    std::vector<TensorView> found;
    for (const char* part : parts)
      if (auto tensor = take(prefix + part + kind)) found.push_back(std::move(*tensor));
    if (found.empty()) return nullptr;
    if (found.size() != parts.size())
      throw Error(ErrorKind::kFormat, "{}: tensors such as {}{}{}: found {}, expected {}",
                  file_.path, prefix, *parts.begin(), kind, found.size(), parts.size());
    make_alike(found);
    return &tensors_.emplace_back(join_rows(std::move(found), prefix + name + kind));
  }

  void join_projections(const std::string& prefix) {
    const bool gpt2 = type_.type == "gpt2";
    const bool neox = type_.type == "gpt_neox";
    constexpr std::string_view kGateUp[] = {"phi3", "glm", "glm4"};
    const bool gate_up = std::ranges::find(kGateUp, type_.type) != std::end(kGateUp);
    if (gate_up)
      for (const char* kind : {".weight", ".bias"})
        join(prefix, {"ffn_gate", "ffn_up"}, "ffn_gate_up", kind);
    join_shared(prefix);
    if (!gpt2 && !neox && type_.type != "phi3" && type_.type != "bailing_moe") return;
    for (const char* kind : {".weight", ".bias"}) {
      TensorView* joint = join(prefix, {"attn_q", "attn_k", "attn_v"}, "attn_qkv", kind);
      if (joint != nullptr && neox) *joint = reordered_rows(*joint, by_head());
      if (joint != nullptr && gpt2 && kind_ == FolderKind::kHuggingFace && joint->shape.size() == 2)
        transpose(*joint);
    }
  }

  // Converts (width, channels) to the form of folders, with a dimension of one input channel.
  void restore_convolution(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &TensorView::name);
    if (found == tensors_.end() || found->shape.size() != 2) return;
    const int64_t width = found->shape[0], channels = found->shape[1];
    *found = reshaped(transposed(plain(*found)), kind_ == FolderKind::kMlx
                                                     ? std::vector<int64_t>{channels, width, 1}
                                                     : std::vector<int64_t>{channels, 1, width});
  }

  // Joins tensors whose rows folders store group by group.
  void join_groups(const std::string& prefix, std::initializer_list<const char*> parts,
                   const char* name, const std::vector<int64_t>& order) {
    std::vector<int64_t> places(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    for (const char* kind : {".weight", ".bias"})
      if (TensorView* joint = join(prefix, parts, name, kind))
        *joint = reordered_rows(*joint, places);
  }

  void restore_rates(const std::string& prefix) {
    if (auto a = take(prefix + "ssm_a.weight"))
      tensors_.push_back(with_values(*a, [](size_t, float x) { return std::log(-x); }));
  }

  // The step bias is the sum of the projection's and its own; it is stored in the latter.
  void restore_mamba2(const std::string& prefix) {
    restore_convolution(prefix + "ssm_conv1d.weight");
    restore_rates(prefix);
    if (auto steps = take(prefix + "ssm_dt.bias")) {
      const bool in_projection = std::ranges::find(tensors_, prefix + "ssm_gate.bias",
                                                   &TensorView::name) != tensors_.end();
      if (in_projection) {
        tensors_.push_back(with_values(*steps, [](size_t, float) { return 0.0F; }));
        join(prefix, {"ssm_gate", "ssm_xbc", "ssm_dt"}, "ssm_in", ".bias");
      }
      steps->name = prefix + "ssm_dt_bias.bias";
      tensors_.push_back(std::move(*steps));
    }
    join(prefix, {"ssm_gate", "ssm_xbc", "ssm_dt"}, "ssm_in", ".weight");
  }

  void restore_mamba1(const std::string& prefix) {
    restore_convolution(prefix + "ssm_conv1d.weight");
    if (auto a = take(prefix + "ssm_a.weight"))
      tensors_.push_back(with_values(transposed(*a), [](size_t, float x) { return std::log(-x); }));
    for (const char* kind : {".weight", ".bias"})
      join(prefix, {"ssm_value", "ssm_gate"}, "ssm_in", kind);
  }

  void restore_kda(const std::string& prefix) {
    for (const char* part : {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"})
      restore_convolution(prefix + part + ".weight");
    restore_rates(prefix);
    const auto rates = std::ranges::find(tensors_, prefix + "ssm_a.weight", &TensorView::name);
    if (rates != tensors_.end()) *rates = reshaped(*rates, {1, 1, rates->elements(), 1});
  }

  void rename(const std::string& from, const std::string& to) {
    const auto found = std::ranges::find(tensors_, from, &TensorView::name);
    if (found != tensors_.end()) found->name = to;
  }

  void restore_rwkv7(const std::string& prefix) {
    for (const char* kind : {".weight", ".bias"})
      rename(std::string("token_embd_norm") + kind, std::string("blk.0.pre_norm") + kind);
    rename(prefix + "time_mix_key.weight", prefix + "attn_k.weight");
    rename(prefix + "time_mix_value.weight", prefix + "attn_v.weight");
    for (TensorView& tensor : tensors_) {
      if (tensor.name.starts_with(prefix + "time_mix_lerp_"))
        tensor = reshaped(tensor, {1, 1, tensor.elements()});
      if (tensor.name == prefix + "time_mix_r_k.weight")
        tensor = reshaped(tensor, {c_.recurrent.heads, c_.recurrent.key_size});
    }
  }

  // Folders in "fused" mode store projections of the same input as one matrix.
  void restore_mlstm(const std::string& prefix) {
    if (file_.container != Container::kFolder ||
        text_config(*file_.config).value("weight_mode", Json()) != "fused")
      return;
    for (const char* kind : {".weight", ".bias"}) {
      join(prefix, {"mlstm_q", "mlstm_k", "mlstm_v", "mlstm_ogate"}, "mlstm_qkvo", kind);
      join(prefix, {"mlstm_igate", "mlstm_fgate"}, "mlstm_gates", kind);
      join(prefix, {"ffn_gate", "ffn_up"}, "ffn_gate_up", kind);
    }
  }

  // Returns the row order that converts value heads tiled over key heads, as in GGUF, to value
  // heads grouped by key head. `before` is the number of preceding rows of other kinds.
  std::vector<int64_t> grouped_heads(int64_t size, int64_t before = 0) const {
    const RecurrentConfig& r = c_.recurrent;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < before; ++i) order.push_back(i);
    for (int64_t key = 0; key < r.key_heads; ++key)
      for (int64_t value = 0; value < r.heads / r.key_heads; ++value)
        for (int64_t i = 0; i < size; ++i)
          order.push_back(before + (value * r.key_heads + key) * size + i);
    return order;
  }
  void group_value_heads(const std::string& prefix) {
    const RecurrentConfig& r = c_.recurrent;
    const auto find = [&](const char* part) {
      return std::ranges::find(tensors_, prefix + part, &TensorView::name);
    };
    const auto rows = [&](const char* part, const std::vector<int64_t>& order) {
      if (const auto tensor = find(part); tensor != tensors_.end())
        *tensor = reordered_rows(*tensor, order);
    };
    const auto columns = [&](const char* part, const std::vector<int64_t>& order) {
      if (const auto tensor = find(part); tensor != tensors_.end())
        *tensor = transposed(reordered_rows(transposed(plain(*tensor)), order));
    };
    rows("ssm_qkv.weight", grouped_heads(r.value_size, 2 * r.keys()));
    columns("ssm_conv1d.weight", grouped_heads(r.value_size, 2 * r.keys()));
    rows("ssm_gate.weight", grouped_heads(r.value_size));
    columns("ssm_out.weight", grouped_heads(r.value_size));
    for (const char* part :
         {"ssm_beta.weight", "ssm_alpha.weight", "ssm_alpha.bias", "ssm_a.weight"})
      rows(part, grouped_heads(1));
  }

  // Reverts arrange_recurrent().
  void restore_recurrent(int32_t layer, const std::string& prefix) {
    const RecurrentConfig& r = c_.recurrent;
    if (r.mixer == Mixer::kShortConv) restore_convolution(prefix + "shortconv.conv.weight");
    if (r.mixer == Mixer::kMamba1 && c_.is_recurrent(layer)) return restore_mamba1(prefix);
    if (r.mixer == Mixer::kMlstm) return restore_mlstm(prefix);
    if (r.mixer == Mixer::kRwkv7) return restore_rwkv7(prefix);
    if (r.mixer == Mixer::kKda && c_.is_recurrent(layer)) return restore_kda(prefix);
    if (r.mixer == Mixer::kMamba2 && c_.is_recurrent(layer)) return restore_mamba2(prefix);
    if (r.mixer != Mixer::kDelta) return;
    if (!c_.is_recurrent(layer))
      return join_groups(
          prefix, {"attn_q", "attn_gate"}, "attn_q",
          parts_of_groups(c_.attention.heads, {c_.attention.head_dim, c_.attention.head_dim}));
    if (r.map == HeadMap::kTiled) group_value_heads(prefix);
    restore_convolution(prefix + "ssm_conv1d.weight");
    if (auto steps = take(prefix + "ssm_alpha.bias")) {
      steps->name = prefix + "ssm_steps.bias";
      tensors_.push_back(std::move(*steps));
    }
    restore_rates(prefix);
    if (type_.type != "qwen3_next") return;
    const int64_t group = r.heads / r.key_heads, values = group * r.value_size;
    join_groups(prefix, {"ssm_qkv", "ssm_gate"}, "ssm_in",
                parts_of_groups(r.key_heads, {r.key_size, r.key_size, values, values}));
    join_groups(prefix, {"ssm_beta", "ssm_alpha"}, "ssm_ba",
                parts_of_groups(r.key_heads, {group, group}));
  }

  void separate_head_norms(const std::string& prefix) {
    for (const char* part : {"attn_q_norm", "attn_k_norm"}) {
      const auto all = take(fmt::format("{}{}.weight", prefix, part));
      for (int64_t head = 0; all && head < all->shape.at(0); ++head)
        tensors_.push_back(reshaped(
            slice_rows(*all, fmt::format("{}{}.{}.weight", prefix, part, head), head, head + 1),
            {c_.attention.head_dim}));
    }
  }

  // Joins the shared expert of Granite's layers, which exists next to a mixture or (Hugging Face)
  // alone.
  void join_shared(const std::string& prefix) {
    if (!type_.type.starts_with("granitemoe")) return;
    join(prefix, {"ffn_gate_shexp", "ffn_up_shexp"}, "ffn_gate_up_shexp", ".weight");
    if (kind_ != FolderKind::kHuggingFace) return;
    if (join(prefix, {"ffn_gate", "ffn_up"}, "ffn_gate_up_shexp", ".weight") == nullptr) return;
    if (auto down = take(prefix + "ffn_down.weight")) {
      down->name = prefix + "ffn_down_shexp.weight";
      tensors_.push_back(std::move(*down));
    }
  }

  // Joins MLA's up-projections of keys and values, head by head.
  void join_latent(const std::string& prefix) {
    auto keys = take(prefix + "attn_k_b.weight");
    auto values = take(prefix + "attn_v_b.weight");
    if (!keys || !values) return;
    const LatentConfig& l = c_.latent;
    std::vector<TensorView> parts = {transposed(*keys), std::move(*values)};
    make_alike(parts);
    parts[0].shape = {c_.attention.heads * l.plain, l.rank};
    parts[1].shape = {c_.attention.heads * l.value, l.rank};
    std::vector<int64_t> order;
    for (int64_t head = 0; head < c_.attention.heads; ++head) {
      for (int64_t i = 0; i < l.plain; ++i) order.push_back(head * l.plain + i);
      for (int64_t i = 0; i < l.value; ++i)
        order.push_back(c_.attention.heads * l.plain + head * l.value + i);
    }
    const TensorView joint = join_rows(std::move(parts), prefix + "attn_kv_b.weight");
    tensors_.push_back(reordered_rows(joint, order));
    transposed_.push_back(joint.name);
  }

  // Returns the order that groups q, k and v by head: entry i is the source row, counted over all
  // q, then all k, then all v.
  std::vector<int64_t> by_head() const {
    std::vector<int64_t> order;
    for (int64_t head = 0; head < c_.attention.heads; ++head)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < c_.attention.head_dim; ++i)
          order.push_back((part * c_.attention.heads + head) * c_.attention.head_dim + i);
    return order;
  }

  void separate_experts(const std::string& prefix, const MixtureNames& mixture) {
    if (mixture.form != ExpertForm::kApart) return join_experts(prefix, mixture.form);
    for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"}) {
      const auto all = take(fmt::format("{}{}_exps.weight", prefix, part));
      if (!all) continue;
      const int64_t rows = all->shape.at(1);
      const std::vector<int64_t> shape = {rows, all->shape.at(2)};
      for (int64_t expert = 0; expert < all->shape[0]; ++expert)
        tensors_.push_back(pick_rows(*all, fmt::format("{}{}.{}.weight", prefix, part, expert),
                                     shape, {all->shape[0] * rows, expert * rows, 1}));
    }
  }

  // Returns the row order of a joint gate-up tensor: entry i is the source row, counted over all
  // gates, then all ups.
  static std::vector<int64_t> gate_up_order(int64_t experts, int64_t rows, ExpertForm form) {
    std::vector<int64_t> order;
    const int64_t all = experts * rows;
    const int64_t block = form == ExpertForm::kAlternating ? 1 : rows;
    for (int64_t first = 0; first < all; first += block)
      for (int64_t part = 0; part < 2; ++part)
        for (int64_t i = 0; i < block; ++i) order.push_back(part * all + first + i);
    return order;
  }

  void join_experts(const std::string& prefix, ExpertForm form) {
    const bool turned = form != ExpertForm::kLinear && form != ExpertForm::kJoint;
    auto gate = take(prefix + "ffn_gate_exps.weight");
    auto up = take(prefix + "ffn_up_exps.weight");
    if (gate && up) {
      const std::vector<int64_t> shape = {gate->shape.at(0), 2 * gate->shape.at(1),
                                          gate->shape.at(2)};
      const std::vector<int64_t> order = gate_up_order(shape[0], gate->shape[1], form);
      std::vector<TensorView> parts = {plain(*gate), plain(*up)};
      make_alike(parts);
      for (TensorView& part : parts) part.shape = {shape[0] * shape[1] / 2, shape[2]};
      TensorView joint =
          reordered_rows(join_rows(std::move(parts), prefix + "ffn_gate_up_exps.weight"), order);
      joint.shape = shape;
      TensorView& kept = tensors_.emplace_back(std::move(joint));
      if (turned) transpose(kept);
    }
    if (!turned) return;
    if (auto down = take(prefix + "ffn_down_exps.weight"))
      transpose(tensors_.emplace_back(std::move(*down)));
    interleave_biases(prefix);
  }

  void interleave_biases(const std::string& prefix) {
    const auto gate = take(prefix + "ffn_gate_exps.bias");
    const auto up = take(prefix + "ffn_up_exps.bias");
    if (!gate || !up) return;
    std::vector<std::byte> buffers[2];
    const std::span<const std::byte> parts[2] = {gate->read(buffers[0]), up->read(buffers[1])};
    const size_t size = byte_size(gate->dtype, 1);
    VEERY_CHECK(gate->dtype == up->dtype && parts[0].size() == parts[1].size());
    std::vector<std::byte> both(2 * parts[0].size());
    for (size_t i = 0; i < both.size() / size; ++i)
      std::memcpy(&both[i * size], &parts[i % 2][i / 2 * size], size);
    TensorView& joint = tensors_.emplace_back(*gate);
    joint.name = prefix + "ffn_gate_up_exps.bias";
    joint.shape.back() *= 2;
    joint.source = make_bytes(std::move(both), byte_size(joint.dtype, joint.shape.back()));
    joint.data = {};
  }

  const ModelFile& file_;
  const TransformerConfig& c_;
  const FolderType& type_;
  FolderKind kind_;
  std::vector<TensorView> tensors_;
  std::vector<std::string> transposed_, left_out_;
};

// Returns whether a folder type of the right architecture can represent the model.
bool fits(const FolderType& type, const TransformerConfig& c) {
  const bool mixture = c.experts.count > 0;
  if (type.window == WindowRule::kNone && c.attention.window > 0) return false;
  if (type.type == "granitemoehybrid") return !mixture || c.recurrent.mixer != Mixer::kNone;
  if (type.type == "granitemoe" && c.experts.shared_hidden > 0) return false;
  if (type.type == "deepseek_v2" && c.experts.route.sigmoid) return false;
  if (type.type == "qwen3_5") return false;  // a multi-part type
  if (type.architecture == "gemma4" || type.type == "nemotron_h") return true;
  return (mixture_names(type) != nullptr) == mixture;
}

}  // namespace

const FolderType& folder_type_of(const ModelFile& file, const TransformerConfig& c) {
  if (file.container == Container::kFolder)
    if (const FolderType* type = find_folder_type(file)) return *type;
  for (const FolderType& type : folder_types())
    if (type.architecture == c.architecture && fits(type, c)) return type;
  // GGUF uses one name for several families, and two names for another.
  if (c.architecture == "nemotron_h_moe") return *find_folder_type("nemotron_h");
  for (const FolderType& type : folder_types())
    if (gguf_architecture(type.architecture) == c.architecture && fits(type, c)) return type;
  throw Error(ErrorKind::kUnsupported,
              "{}: no folder type supports {} with {} experts and a window of {}", file.path,
              c.architecture, c.experts.count, c.attention.window);
}

FolderTensors folder_tensors(const ModelFile& file, const TransformerConfig& c,
                             const FolderType& type, FolderKind kind) {
  if (std::ranges::find(kUnwritten, type.type) != std::end(kUnwritten))
    throw Error(ErrorKind::kUnsupported, "{}: writing folders of {} is not supported", file.path,
                type.type);
  return FolderTensorBuilder(file, c, type, kind).named();
}

}  // namespace veery
