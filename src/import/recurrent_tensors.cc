#include "import/recurrent_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/printable.h"
#include "file/folder/row_sources.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "model/arch/entry.h"

namespace veery {
namespace {

// Returns the values of a vector.
std::vector<float> values_of(const TensorView& tensor) {
  std::vector<std::byte> buffer;
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode(tensor.dtype, tensor.read(buffer), values);
  return values;
}

}  // namespace

std::vector<int64_t> parts_of_groups(int64_t groups, std::initializer_list<int64_t> sizes) {
  int64_t group = 0;
  for (const int64_t size : sizes) group += size;
  std::vector<int64_t> order;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t i = 0; i < size; ++i) order.push_back(g * group + begin + i);
    begin += size;
  }
  return order;
}

TensorView with_values(const TensorView& tensor, const std::function<float(size_t, float)>& f) {
  std::vector<float> values = values_of(tensor);
  for (size_t i = 0; i < values.size(); ++i) values[i] = f(i, values[i]);
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  TensorView result = tensor;
  result.dtype = DType::kF32;
  result.data = {};
  result.source = make_bytes(std::move(bytes), static_cast<size_t>(tensor.shape.back()) * 4);
  return result;
}

namespace {

/// Access to the tensors of a file by name; errors name them.
class Tensors {
 public:
  explicit Tensors(ModelFile& file) : file_(file) {}

  TensorView* find(const std::string& name) {
    const auto found = std::ranges::find(file_.tensors, name, &TensorView::name);
    return found == file_.tensors.end() ? nullptr : &*found;
  }
  void rename(const std::string& from, const std::string& to) {
    if (TensorView* tensor = find(from)) tensor->name = to;
  }
  /// Replaces `name` by parts of its rows: those listed in `order`, split into the given sizes.
  void split(const std::string& name, const std::vector<int64_t>& order,
             std::initializer_list<std::pair<std::string, int64_t>> parts) {
    TensorView* found = find(name);
    if (found == nullptr) return;
    const TensorView whole = reordered_rows(*found, order);
    std::erase_if(file_.tensors, [&](const TensorView& tensor) { return tensor.name == name; });
    int64_t begin = 0;
    for (const auto& [part, rows] : parts) {
      file_.tensors.push_back(slice_rows(whole, part, begin, begin + rows));
      begin += rows;
    }
  }

 private:
  ModelFile& file_;
};

// Converts (channels, width) or (channels, 1, width) to (width, channels).
void transpose_convolution(const ModelFile& file, TensorView& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
  // MLX stores (channels, width, 1).
  if (shape.size() == 3 && shape[2] == 1) shape.pop_back();
  if (shape.size() != 2)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected channels x width",
                file.path, printable(tensor.name), tensor.shape.size());
  tensor = transposed(shape.size() == tensor.shape.size() ? tensor : reshaped(tensor, shape));
}

void arrange_delta(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  const RecurrentConfig& r = c.recurrent;
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
  Tensors tensors(file);
  if (layer >= c.layers || !c.is_recurrent(layer)) {  // gated attention
    const int64_t rows = int64_t{c.attention.heads} * c.attention.head_dim;
    for (const char* kind : {".weight", ".bias"})
      tensors.split(
          name("attn_q") + kind,
          parts_of_groups(c.attention.heads, {c.attention.head_dim, c.attention.head_dim}),
          {{name("attn_q") + kind, rows}, {name("attn_gate") + kind, rows}});
    return;
  }
  const int64_t group = r.heads / r.key_heads;  // value heads of a key head
  const int64_t values = group * r.value_size;
  tensors.split(
      name("ssm_in.weight"), parts_of_groups(r.key_heads, {r.key_size, r.key_size, values, values}),
      {{name("ssm_qkv.weight"), 2 * r.keys() + r.values()}, {name("ssm_gate.weight"), r.values()}});
  tensors.split(name("ssm_ba.weight"), parts_of_groups(r.key_heads, {group, group}),
                {{name("ssm_beta.weight"), r.heads}, {name("ssm_alpha.weight"), r.heads}});
  if (TensorView* conv = tensors.find(name("ssm_conv1d.weight")))
    transpose_convolution(file, *conv);
  if (file.container == Container::kGguf) {
    tensors.rename(name("attn_qkv.weight"), name("ssm_qkv.weight"));
    tensors.rename(name("attn_gate.weight"), name("ssm_gate.weight"));
    tensors.rename(name("ssm_dt.bias"), name("ssm_alpha.bias"));
    tensors.rename(name("ssm_a"), name("ssm_a.weight"));
  } else if (TensorView* a = tensors.find(name("ssm_a.weight"))) {
    *a = with_values(*a, [](size_t, float x) { return -std::exp(x); });
  }
}

// Mamba 1: splits the projection into the convolution input and the gate; rates have shape
// (channels, key size).
void arrange_mamba1(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  if (!c.is_recurrent(layer)) return;
  const int64_t inner = c.recurrent.values();
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
  Tensors tensors(file);
  for (const char* kind : {".weight", ".bias"})
    tensors.split(name("ssm_in") + kind, parts_of_groups(1, {2 * inner}),
                  {{name("ssm_value") + kind, inner}, {name("ssm_gate") + kind, inner}});
  if (TensorView* conv = tensors.find(name("ssm_conv1d.weight")))
    transpose_convolution(file, *conv);
  const bool gguf = file.container == Container::kGguf;
  for (const char* part : {"ssm_a", "ssm_d"})
    if (gguf) tensors.rename(name(part), name(part) + ".weight");
  TensorView* rates = tensors.find(name("ssm_a.weight"));
  if (rates == nullptr) return;
  if (rates->shape.size() != 2)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected channels x {}",
                file.path, printable(rates->name), rates->shape.size(), c.recurrent.key_size);
  if (!gguf) *rates = with_values(*rates, [](size_t, float x) { return -std::exp(x); });
  *rates = transposed(*rates);
}

// Folds a folder's multipliers on the projection's output into small weights: those on convolution
// inputs into the convolution, which processes each channel separately, and those on steps into the
// few rows of the step projection.
void scale_channels(Tensors& tensors, const TransformerConfig& c, int32_t layer) {
  const RecurrentConfig& r = c.recurrent;
  const auto& factors = c.multipliers.channels;
  if (factors == Multipliers{}.channels) return;
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
  const int64_t channels = r.values() + 2 * r.keys();
  if (TensorView* conv = tensors.find(name("ssm_conv1d.weight"));
      conv != nullptr && conv->elements() % channels == 0) {
    const auto width = static_cast<size_t>(conv->elements() / channels);
    *conv = with_values(*conv, [&](size_t i, float x) {
      const auto channel = static_cast<int64_t>(i / width);
      return x * factors[channel < r.values() ? 0 : channel < r.values() + r.keys() ? 1 : 2];
    });
  }
  for (const char* part : {"ssm_dt.weight", "ssm_dt.bias"})
    if (TensorView* steps = tensors.find(name(part)))
      *steps = with_values(*steps, [&](size_t, float x) { return x * factors[3]; });
}

// Mamba 2: splits the projection into gate, convolution input and steps. If the projection has a
// bias too, its part for the steps is added to the step bias.
void arrange_mamba2(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  if (!c.is_recurrent(layer)) return;
  const RecurrentConfig& r = c.recurrent;
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
  Tensors tensors(file);
  const int64_t inner = r.values(), convolved = inner + 2 * r.keys();
  tensors.rename(name("ssm_dt.bias"), name("ssm_dt_bias.bias"));
  for (const char* kind : {".weight", ".bias"})
    tensors.split(name("ssm_in") + kind, parts_of_groups(1, {inner + convolved + r.heads}),
                  {{name("ssm_gate") + kind, inner},
                   {name("ssm_xbc") + kind, convolved},
                   {name("ssm_dt") + kind, r.heads}});
  scale_channels(tensors, c, layer);
  if (TensorView* bias = tensors.find(name("ssm_dt_bias.bias"))) {
    if (TensorView* own = tensors.find(name("ssm_dt.bias"))) {
      const std::vector<float> added = values_of(*bias);
      if (added.size() != static_cast<size_t>(own->elements()))
        throw Error(ErrorKind::kFormat,
                    "{}: the step bias of layer {} has {} elements, "
                    "expected {}",
                    file.path, layer, added.size(), own->elements());
      *own = with_values(*own, [&](size_t i, float x) { return x + added[i]; });
      std::erase_if(file.tensors,
                    [&](const TensorView& t) { return t.name == name("ssm_dt_bias.bias"); });
    } else {
      bias->name = name("ssm_dt.bias");
    }
  }
  if (TensorView* conv = tensors.find(name("ssm_conv1d.weight")))
    transpose_convolution(file, *conv);
  if (TensorView* norm = tensors.find(name("ssm_norm.weight")))
    *norm = reshaped(*norm, {norm->elements()});
  if (file.container == Container::kGguf) {
    for (const char* part : {"ssm_a", "ssm_d"}) {
      tensors.rename(name(part), name(part) + ".weight");
      if (TensorView* vector = tensors.find(name(part) + ".weight"))
        *vector = reshaped(*vector, {vector->elements()});
    }
  } else if (TensorView* a = tensors.find(name("ssm_a.weight"))) {
    *a = with_values(*a, [](size_t, float x) { return -std::exp(x); });
  }
}

void arrange_kda(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  if (!c.is_recurrent(layer)) return;
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
  Tensors tensors(file);
  for (const char* part : {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"})
    if (TensorView* conv = tensors.find(name(part))) transpose_convolution(file, *conv);
  if (file.container == Container::kGguf) {
    tensors.rename(name("ssm_dt.bias"), name("ssm_f_b.bias"));
    tensors.rename(name("ssm_a"), name("ssm_a.weight"));
    if (TensorView* a = tensors.find(name("ssm_a.weight"))) *a = reshaped(*a, {a->elements()});
    return;
  }
  TensorView* a = tensors.find(name("ssm_a.weight"));
  if (a == nullptr) return;
  *a = with_values(reshaped(*a, {a->elements()}), [](size_t, float x) { return -std::exp(x); });
}

// Files in "fused" mode store projections of the same input as one matrix.
void arrange_mlstm(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  const RecurrentConfig& r = c.recurrent;
  const auto name = [&](const char* part, const char* kind) {
    return fmt::format("blk.{}.{}{}", layer, part, kind);
  };
  Tensors tensors(file);
  for (const char* kind : {".weight", ".bias"}) {
    tensors.split(name("mlstm_qkvo", kind), parts_of_groups(1, {2 * r.keys() + 2 * r.values()}),
                  {{name("mlstm_q", kind), r.keys()},
                   {name("mlstm_k", kind), r.keys()},
                   {name("mlstm_v", kind), r.values()},
                   {name("mlstm_ogate", kind), r.values()}});
    tensors.split(name("mlstm_gates", kind), parts_of_groups(1, {2 * r.heads}),
                  {{name("mlstm_igate", kind), r.heads}, {name("mlstm_fgate", kind), r.heads}});
  }
}

// Splits RWKV-7's token-shift weights, which GGUF stores as one matrix, renames the biases that
// GGUF names like weights, and drops unused weights of the first layer.
void arrange_rwkv7(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  const auto name = [&](const std::string& part) { return fmt::format("blk.{}.{}", layer, part); };
  Tensors tensors(file);
  for (const char* kind : {".weight", ".bias"}) {
    if (layer == 0) tensors.rename(name("pre_norm") + kind, std::string("token_embd_norm") + kind);
    tensors.rename(name("attn_norm_2") + kind, name("ffn_norm") + kind);
  }
  tensors.rename(name("attn_k.weight"), name("time_mix_key.weight"));
  tensors.rename(name("attn_v.weight"), name("time_mix_value.weight"));
  for (const char* part : {"w", "a", "v"})
    tensors.rename(name(fmt::format("time_mix_{}0.weight", part)),
                   name(fmt::format("time_mix_{}2.bias", part)));
  const std::string fused = name("time_mix_lerp_fused.weight");
  if (TensorView* shares = tensors.find(fused);
      shares != nullptr && shares->elements() == 6 * c.dim) {
    *shares = reshaped(*shares, {6, c.dim});
    tensors.split(fused, parts_of_groups(1, {6}),
                  {{name("time_mix_lerp_r.weight"), 1},
                   {name("time_mix_lerp_w.weight"), 1},
                   {name("time_mix_lerp_k.weight"), 1},
                   {name("time_mix_lerp_v.weight"), 1},
                   {name("time_mix_lerp_a.weight"), 1},
                   {name("time_mix_lerp_g.weight"), 1}});
  }
  if (layer == 0)
    std::erase_if(file.tensors, [](const TensorView& t) {
      return t.name.starts_with("blk.0.time_mix_v") && !t.name.starts_with("blk.0.time_mix_value");
    });
  for (const char* part : {"lerp_r", "lerp_w", "lerp_k", "lerp_v", "lerp_a", "lerp_g", "r_k"})
    if (TensorView* vector = tensors.find(name(fmt::format("time_mix_{}.weight", part))))
      *vector = reshaped(*vector, {vector->elements()});
  if (TensorView* share = tensors.find(name("channel_mix_lerp_k.weight")))
    *share = reshaped(*share, {share->elements()});
}

// Drops all tensors of the layers [begin, end).
void drop_layers(ModelFile& file, int64_t begin, int64_t end) {
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    const int64_t layer = layer_part(tensor.name).first;
    return begin <= layer && layer < end;
  });
}

void arrange_short_conv(ModelFile& file, const TransformerConfig& c, int32_t layer) {
  if (!c.is_recurrent(layer)) return;
  if (TensorView* conv = Tensors(file).find(fmt::format("blk.{}.shortconv.conv.weight", layer)))
    transpose_convolution(file, *conv);
}

}  // namespace

void arrange_recurrent(ModelFile& file) {
  const TransformerConfig c = read_config(file);
  int32_t further = c.recurrent.mixer == Mixer::kDelta ? c.mtp_layers : 0;
  if (further > 0 && !has_draft_head(file, c)) {
    drop_layers(file, c.layers, c.layers + further);
    further = 0;
  }
  for (int32_t layer = 0; layer < c.layers + further; ++layer) switch (c.recurrent.mixer) {
      case Mixer::kNone:
      case Mixer::kXlstmBlocks: return;
      case Mixer::kDelta: arrange_delta(file, c, layer); break;
      case Mixer::kMamba1: arrange_mamba1(file, c, layer); break;
      case Mixer::kMamba2: arrange_mamba2(file, c, layer); break;
      case Mixer::kKda: arrange_kda(file, c, layer); break;
      case Mixer::kMlstm: arrange_mlstm(file, c, layer); break;
      case Mixer::kRwkv7: arrange_rwkv7(file, c, layer); break;
      case Mixer::kShortConv: arrange_short_conv(file, c, layer); break;
    }
}

}  // namespace veery
