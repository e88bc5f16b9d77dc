#include "model/config.h"

#include <cmath>

#include "base/error.h"
#include "model/number_ranges.h"

namespace veery {

void check_experts(const ExpertConfig& e, const ExpertKeys& keys) {
  const RouteAttr& r = e.route;
  const auto check = [&](const std::string& key, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      throw Error(ErrorKind::kFormat, "{}: {} is {}, expected 1 to {} with {} experts", keys.where,
                  key, value, most, e.count);
  };
  check(keys.used, r.used, e.count);
  check(keys.groups, r.groups, e.count);
  check(keys.groups_used, r.groups_used, r.groups);
  const int64_t each = e.count / r.groups;
  if (e.count % r.groups != 0 || r.group_best > each)
    throw Error(ErrorKind::kFormat,
                "{}: {} is {}, expected a divisor of {} experts, {} or more each", keys.where,
                keys.groups, r.groups, e.count, r.group_best);
  if (r.groups_used * each < r.used)
    throw Error(ErrorKind::kFormat, "{}: {} is {}, but {} of {} groups have {} experts", keys.where,
                keys.used, r.used, r.groups_used, r.groups, r.groups_used * each);
}

const char* name(Mixer mixer) {
  switch (mixer) {
    case Mixer::kNone: break;
    case Mixer::kDelta: return "gated DeltaNet";
    case Mixer::kMamba1: return "Mamba";
    case Mixer::kMamba2: return "Mamba-2";
    case Mixer::kShortConv: return "short convolution";
    case Mixer::kRwkv7: return "RWKV-7";
    case Mixer::kXlstmBlocks: return "mLSTM and sLSTM";
    case Mixer::kMlstm: return "mLSTM";
    case Mixer::kKda: return "Kimi Delta Attention";
  }
  return "none";
}

ActivateAttr TransformerConfig::activation_of(int32_t layer) const {
  if (feed_forward.activation != Activation::kXielu) return feed_forward.activation;
  const XieluNumbers& x = feed_forward.xielu.at(static_cast<size_t>(layer));
  for (const XieluField& field : kXieluFields)
    check_number(fmt::format("layer {}", layer), field.gguf_key, field.gguf_key, x.*field.member);
  const auto softplus = [](double a) {
    return std::max(a, 0.0) + std::log1p(std::exp(-std::abs(a)));
  };
  return ActivateAttr::xielu(static_cast<float>(softplus(x.alpha_p)),
                             static_cast<float>(x.beta + softplus(x.alpha_n)), x.beta, x.eps);
}

int32_t TransformerConfig::keys_of(int32_t layer) const {
  if (!shares_kv(layer)) return layer;
  int32_t from = layers - attention.shared_kv_layers - 1;
  while (from >= 0 && is_local(from) != is_local(layer)) --from;
  return from;
}

void check_shared_kv(const TransformerConfig& c, const std::string& where) {
  for (int32_t layer = 0; layer < c.layers; ++layer)
    if (c.keys_of(layer) < 0)
      throw Error(ErrorKind::kFormat,
                  "{}: layer {} is one of {} layers that share keys and values, but none of the {} "
                  "layers before them {}",
                  where, layer, c.attention.shared_kv_layers,
                  c.layers - c.attention.shared_kv_layers,
                  c.is_local(layer) ? "has a sliding window" : "has global attention");
}

void check_index(const TransformerConfig& c, const std::string& where, const std::string& turned) {
  const IndexConfig& index = c.index;
  if (c.latent.query_rank == 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: sparse attention needs compressed queries, but the query rank is 0", where);
  if (c.latent.turned > index.head_dim)
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected at most the indexer's head size, {}",
                where, turned, c.latent.turned, index.head_dim);
  if (!index.layers[0])
    throw Error(ErrorKind::kFormat,
                "{}: layer 0 has no indexer, but no earlier layer selects positions for it", where);
}

void check_source(const TransformerConfig& c, const std::string& where) {
  const SourceConfig& s = c.source;
  if (c.dim % s.heads != 0)
    throw Error(ErrorKind::kFormat, "{}: the encoder has {} heads, expected a divisor of {}", where,
                s.heads, c.dim);
  if (int64_t{c.attention.heads} * c.attention.head_dim != c.dim ||
      c.attention.kv_heads != c.attention.heads)
    throw Error(ErrorKind::kFormat,
                "{}: the decoder has {} heads of size {}, expected a total of {}", where,
                c.attention.heads, c.attention.head_dim, c.dim);
  // 90 s of sound; published models process at most 30 s at a time.
  constexpr int32_t kMostPositions = 4500, kMostBands = 512;
  if (s.positions > kMostPositions || s.bands > kMostBands)
    throw Error(ErrorKind::kUnsupported,
                "{}: the encoder has {} positions and {} bands, expected at most {} and {}", where,
                s.positions, s.bands, kMostPositions, kMostBands);
}

// The embedding may have been truncated to the existing tokens and the per-layer table not.
void find_layer_input_rows(const ModelFile& file, TransformerConfig& c) {
  c.input.layer_input_rows = c.vocab;
  const TensorView* table = file.find("per_layer_token_embd.weight");
  if (c.input.layer_input == 0 || table == nullptr || table->shape.size() != 2) return;
  c.input.layer_input_rows = table->shape[0];
  if (c.input.layer_input_rows < c.vocab)
    throw Error(ErrorKind::kFormat,
                "{}: tensor {} has {} rows, expected at least {}, one per row of the embedding",
                file.path, table->name, c.input.layer_input_rows, c.vocab);
}

void find_rwkv7_ranks(const ModelFile& file, TransformerConfig& c) {
  const auto rank = [&](const char* part) {
    const std::string name = fmt::format("blk.{}.time_mix_{}1.weight", c.layers - 1, part);
    const TensorView& tensor = file.at(name);
    if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[0] > kMaxSize)
      throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected a matrix",
                  file.path, name, tensor.shape.size());
    return static_cast<int32_t>(tensor.shape[0]);
  };
  // The first layer does not mix in the values of the first layer.
  c.recurrent.ranks = {rank("w"), rank("a"), c.layers > 1 ? rank("v") : 0, rank("g")};
}

void find_xlstm_sizes(const ModelFile& file, TransformerConfig& c) {
  // Returns the shape in the first layer that has the tensor; all layers are checked later.
  const auto shape = [&](const char* part) {
    for (int32_t layer = 0; layer < c.layers; ++layer) {
      const std::string name = fmt::format("blk.{}.{}.weight", layer, part);
      const TensorView* tensor = file.find(name);
      if (tensor == nullptr) continue;
      if (tensor->shape.size() != 2 || tensor->shape[0] > kMaxSize || tensor->shape[1] > kMaxSize)
        throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected a matrix",
                    file.path, name, tensor->shape.size());
      return std::pair(layer, tensor->shape);
    }
    return std::pair(-1, std::vector<int64_t>{0, 0});
  };
  const auto require = [&](bool holds, const char* part, int32_t layer) {
    if (!holds)
      throw Error(ErrorKind::kFormat, "{}: tensor blk.{}.{}.weight does not fit a width of {}",
                  file.path, layer, part, c.dim);
  };
  RecurrentConfig& r = c.recurrent;
  const auto conv_width = [&](int32_t layer) {
    const TensorView* conv = file.find(fmt::format("blk.{}.cell_conv1d.weight", layer));
    return conv == nullptr || conv->shape.size() != 2
               ? 0
               : static_cast<int32_t>(std::min(conv->shape[0], kMaxSize));
  };
  r.heads = r.key_heads = r.key_size = r.value_size = 0;
  r.mixer = Mixer::kXlstmBlocks;
  if (const auto [layer, q] = shape("heads_q"); layer >= 0) {
    const int64_t heads = shape("mlstm_igate").second[0];
    require(q[1] >= 1 && q[0] % q[1] == 0 && heads >= 1 && q[0] % heads == 0, "heads_q", layer);
    r.heads = r.key_heads = static_cast<int32_t>(heads);
    r.key_size = r.value_size = static_cast<int32_t>(q[0] / heads);
    r.blocks.part = static_cast<int32_t>(q[1]);
    r.conv_width = conv_width(layer);
    require(r.conv_width >= 1, "cell_conv1d", layer);
  }
  if (const auto [layer, cell] = shape("slstm_r"); layer >= 0) {
    require(cell[0] >= 1 && c.dim % cell[0] == 0, "slstm_r", layer);
    r.blocks.cell_heads = static_cast<int32_t>(c.dim / cell[0]);
    r.blocks.cell_conv_width = conv_width(layer);
  }
  r.blocks.cells.clear();
  for (int32_t layer = 0; layer < c.layers; ++layer) {
    r.blocks.cells.push_back(file.find(fmt::format("blk.{}.slstm_r.weight", layer)) != nullptr);
    if (!r.blocks.cells.back()) file.at(fmt::format("blk.{}.heads_q.weight", layer));
  }
  c.feed_forward.hidden = std::max<int64_t>(1, shape("ffn_up").second[0]);
}

double yarn_magnitude(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

std::vector<bool> local_pattern(int32_t layers, int32_t period) {
  std::vector<bool> local(static_cast<size_t>(layers));
  for (size_t i = 0; i < local.size(); ++i)
    local[i] = period == 0 || (i + 1) % static_cast<size_t>(period) != 0;
  return local;
}

}  // namespace veery
