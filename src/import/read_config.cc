// Reads the configuration of a decoder from GGUF metadata.
#include "import/read_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/folder_config.h"
#include "model/arch/registry.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

/// Access to the keys of one architecture, such as "llama.block_count".
class Keys {
 public:
  Keys(const Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix) + ".") {}

  /// Returns the full name of a key.
  std::string name(const char* key) const { return prefix_ + key; }
  int64_t size(const char* key) const {
    const auto value = integer(key);
    if (!value) throw Error(ErrorKind::kFormat, "metadata: missing {}", name(key));
    return checked(key, *value);
  }
  int64_t size_or(const char* key, int64_t fallback) const {
    const auto value = integer(key);
    return value ? checked(key, *value) : fallback;
  }
  /// Returns 0 if the key is absent or 0.
  int64_t size_or_zero(const char* key) const {
    const auto value = integer(key);
    return value && *value != 0 ? checked(key, *value) : 0;
  }
  bool flag_or(const char* key, bool fallback) const {
    return metadata_.boolean(prefix_ + key).value_or(fallback);
  }
  double number_or(const char* key, double fallback) const {
    return checked_number(metadata_, prefix_ + key).value_or(fallback);
  }
  double number_or(const char* key, const char* other, double fallback) const {
    return number_or(key, number_or(other, fallback));
  }
  /// Returns one value per layer if they differ; empty if they do not.
  std::vector<int64_t> different(const char* key, int32_t layers) const {
    const MetaValue* value = metadata_.find(prefix_ + key);
    const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
    if (list == nullptr || list->empty() ||
        std::ranges::count(*list, (*list)[0]) == std::ssize(*list))
      return {};
    if (list->size() < static_cast<size_t>(layers))
      throw Error(ErrorKind::kFormat, "metadata: {} has {} entries, expected one for each of {}",
                  name(key), list->size(), layers);
    for (const int64_t item : *list) checked(key, item);
    return *list;
  }
  std::string text_or(const char* key, const char* fallback) const {
    return metadata_.text(prefix_ + key).value_or(fallback);
  }

 private:
  // Returns a number, which may also be stored as the same number for each layer.
  std::optional<int64_t> integer(const char* key) const {
    const MetaValue* value = metadata_.find(prefix_ + key);
    if (value == nullptr || !std::holds_alternative<std::vector<int64_t>>(*value))
      return metadata_.integer(prefix_ + key);
    const auto& list = std::get<std::vector<int64_t>>(*value);
    // Layers without such a part have a 0.
    const auto first = std::ranges::find_if(list, [](int64_t n) { return n != 0; });
    if (first == list.end()) return 0;
    if (std::ranges::any_of(list, [&](int64_t n) { return n != 0 && n != *first; }))
      throw Error(ErrorKind::kUnsupported,
                  "metadata: {} differs between layers ({} entries), expected one value", name(key),
                  list.size());
    return *first;
  }
  int64_t checked(const char* key, int64_t value) const {
    const NumberRange range = range_of_size(key);
    if (!range.holds(static_cast<double>(value)))
      throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected {}", name(key), value,
                  range.text());
    return value;
  }

  const Metadata& metadata_;
  std::string prefix_;
};

void read_yarn(const Keys& keys, const TransformerConfig& c, AnglesAttr& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.original_context = keys.number_or("rope.scaling.original_context_length", c.context);
  rope.beta_fast = keys.number_or("rope.scaling.yarn_beta_fast", 32);
  rope.beta_slow = keys.number_or("rope.scaling.yarn_beta_slow", 1);
  if (rope.beta_fast < rope.beta_slow)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected at least {}, {}",
                keys.name("rope.scaling.yarn_beta_fast"), number_digits(rope.beta_fast),
                keys.name("rope.scaling.yarn_beta_slow"), number_digits(rope.beta_slow));
  rope.truncate = keys.flag_or("rope.scaling.yarn_truncate", true);
  const double weight = keys.number_or("rope.scaling.yarn_log_multiplier", 0);
  const double implied =
      yarn_magnitude(rope.factor, 1) / (weight != 0 ? yarn_magnitude(rope.factor, weight) : 1);
  rope.attention_factor = keys.number_or("rope.scaling.attn_factor", 1) *
                          keys.number_or("rope.scaling.yarn_attn_factor", implied);
  rope.temperature = keys.number_or("attention.temperature_scale", 0);
}

void read_rope_scaling(const Keys& keys, const TransformerConfig& c, AnglesAttr& rope) {
  // A factor without a type means linear scaling; rope.scale_linear is its older name.
  rope.factor = keys.number_or("rope.scaling.factor", "rope.scale_linear", 1);
  const std::string type = keys.text_or("rope.scaling.type", rope.factor == 1 ? "none" : "linear");
  rope.original_context = keys.number_or("rope.scaling.original_context_length", 8192);
  rope.attention_factor = 1;
  // The divisors of longrope are tensors.
  if (type != "none" && type != "longrope" && type != "linear" && type != "yarn")
    throw Error(ErrorKind::kUnsupported,
                "metadata: {} is '{}', expected none, linear, yarn or longrope",
                keys.name("rope.scaling.type"), printable(type));
  if (rope.factor == 1) return;
  if (type == "linear") rope.scaling = RopeScaling::kLinear;
  if (type == "yarn") read_yarn(keys, c, rope);
}

void read_rope(const Keys& keys, TransformerConfig& c) {
  c.positions.rope.theta = keys.number_or("rope.freq_base", 10000);
  c.positions.rope.dims =
      static_cast<int32_t>(keys.size_or("rope.dimension_count", c.attention.head_dim));
  if (c.positions.rope.dims % 2 != 0 || c.positions.rope.dims > c.attention.head_dim)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected an even number up to {}, a head",
                keys.name("rope.dimension_count"), c.positions.rope.dims, c.attention.head_dim);
  read_rope_scaling(keys, c, c.positions.rope);
}

// Reads the sizes of MLA. Newer files use the keys of older ones for the head as cached, and
// additional keys for the head as trained.
void read_latent(const Keys& keys, TransformerConfig& c) {
  LatentConfig& l = c.latent;
  const auto size = [&](const char* newer, const char* older) {
    return static_cast<int32_t>(keys.size_or_zero(newer) > 0 ? keys.size(newer) : keys.size(older));
  };
  l.rank = static_cast<int32_t>(keys.size_or_zero("attention.kv_lora_rank"));
  if (l.rank == 0) return;
  l.query_rank = static_cast<int32_t>(keys.size_or_zero("attention.q_lora_rank"));
  l.turned = static_cast<int32_t>(keys.size("rope.dimension_count"));
  l.plain = size("attention.key_length_mla", "attention.key_length") - l.turned;
  l.value = size("attention.value_length_mla", "attention.value_length");
  if (l.plain < 1)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected less than {}, a head",
                keys.name("rope.dimension_count"), l.turned, l.plain + l.turned);
  c.attention.head_dim = l.plain + l.turned;
  c.attention.kv_heads = 1;
}

void check_key_heads(const Keys& keys, const TransformerConfig& c, int64_t kv_heads) {
  if (c.attention.heads % kv_heads != 0)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected a divisor of {}, {}",
                keys.name("attention.head_count_kv"), kv_heads, keys.name("attention.head_count"),
                c.attention.heads);
}

// Reduces one number per layer to one for each of two kinds of layers.
template <typename IsSecond>
void take_two(const Keys& keys, const char* key, const TransformerConfig& c,
              const IsSecond& is_second, int64_t& first, int64_t& second) {
  const std::vector<int64_t> list = keys.different(key, c.layers);
  for (int32_t layer = 0; layer < c.layers && !list.empty(); ++layer) {
    int64_t& kind = is_second(layer) ? second : first;
    const int64_t value = list[static_cast<size_t>(layer)];
    if (kind != 0 && kind != value)
      throw Error(ErrorKind::kUnsupported,
                  "metadata: {} is {} and {} in layers of the same kind, expected one number",
                  keys.name(key), kind, value);
    kind = value;
  }
}

// Reads sizes that differ between layers with and without a window, and the layers that share the
// KV cache of others. c.attention.local must be set.
void read_layer_sizes(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  const int64_t shared = keys.size_or_zero("attention.shared_kv_layers");
  if (shared >= c.layers)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected less than {}, {}",
                keys.name("attention.shared_kv_layers"), shared, keys.name("block_count"),
                c.layers);
  c.attention.shared_kv_layers = static_cast<int32_t>(shared);
  check_shared_kv(c, "metadata");
  c.input.layer_input = keys.size_or_zero("embedding_length_per_layer_input");
  find_layer_input_rows(file, c);
  int64_t kv = c.attention.kv_heads, local_kv = 0;
  take_two(
      keys, "attention.head_count_kv", c, [&](int32_t i) { return c.is_local(i); }, kv, local_kv);
  c.attention.kv_heads = static_cast<int32_t>(kv > 0 ? kv : local_kv);
  c.attention.local_kv_heads = static_cast<int32_t>(local_kv);
  for (const int32_t heads : {c.attention.kv_heads, c.attention.local_kv_heads})
    if (heads > 0) check_key_heads(keys, c, heads);
  take_two(
      keys, "feed_forward_length", c, [&](int32_t i) { return c.shares_kv(i); },
      c.feed_forward.hidden, c.feed_forward.shared_kv_hidden);
  const int64_t local = keys.size_or("attention.key_length_swa", c.attention.head_dim);
  if (const int64_t value = keys.size_or("attention.value_length_swa", local); value != local)
    throw Error(ErrorKind::kUnsupported, "metadata: {} is {}, expected {}, as {}",
                keys.name("attention.value_length_swa"), value, local,
                keys.name("attention.key_length_swa"));
  if (const int64_t dims = keys.size_or("rope.dimension_count_swa", local); dims != local)
    throw Error(ErrorKind::kUnsupported, "metadata: {} is {}, expected {}, a whole head",
                keys.name("rope.dimension_count_swa"), dims, local);
  c.attention.local_head_dim = local == c.attention.head_dim ? 0 : static_cast<int32_t>(local);
  for (int32_t layer = 0; layer < c.layers - c.attention.shared_kv_layers; ++layer)
    if (!c.is_local(layer))
      c.attention.values_are_keys = !file.find(fmt::format("blk.{}.attn_v.weight", layer)) &&
                                    !file.find(fmt::format("blk.{}.attn_qkv.weight", layer));
}

// Reads the width of feed-forward parts, which files may omit if all layers have experts.
int64_t read_hidden(const Keys& keys, bool feeds) {
  if (!feeds) return std::max<int64_t>(1, keys.size_or_zero("feed_forward_length"));
  const int64_t experts = keys.size_or_zero("expert_feed_forward_length");
  const bool only_experts = experts > 0 && keys.size_or_zero("leading_dense_block_count") == 0;
  return only_experts ? keys.size_or("feed_forward_length", experts)
                      : keys.size("feed_forward_length");
}

void read_sizes(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  c.dim = keys.size("embedding_length");
  // MTP layers come after the others.
  const int64_t all = keys.size("block_count"), further = keys.size_or_zero("nextn_predict_layers");
  if (further >= all)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected less than {}, {}",
                keys.name("nextn_predict_layers"), further, keys.name("block_count"), all);
  c.layers = static_cast<int32_t>(all - further);
  c.mtp_layers = static_cast<int32_t>(further);
  // Files of models without attention or feed-forward parts have zeros.
  const Mixer mixer = find_architecture(c.architecture).mixer;
  const bool attends = mixer != Mixer::kMlstm && mixer != Mixer::kRwkv7 &&
                       mixer != Mixer::kXlstmBlocks && c.architecture != "mamba2";
  c.attention.heads = static_cast<int32_t>(
      attends ? keys.size("attention.head_count")
              : std::max<int64_t>(1, keys.size_or_zero("attention.head_count")));
  const bool may_differ = find_architecture(c.architecture).layer_sizes;
  const auto differs = [&](const char* key) {
    return may_differ && !keys.different(key, c.layers).empty();
  };
  if (!differs("attention.head_count_kv"))
    c.attention.kv_heads =
        static_cast<int32_t>(keys.size_or("attention.head_count_kv", c.attention.heads));
  if (!differs("feed_forward_length"))
    c.feed_forward.hidden = read_hidden(keys, attends || mixer == Mixer::kRwkv7);
  c.context = static_cast<int32_t>(keys.size("context_length"));
  c.attention.head_dim =
      static_cast<int32_t>(keys.size_or("attention.key_length", c.dim / c.attention.heads));
  const int64_t value_dim = keys.size_or("attention.value_length", c.attention.head_dim);
  read_latent(keys, c);
  if (c.latent.rank == 0 && value_dim != c.attention.head_dim)
    throw Error(ErrorKind::kUnsupported, "metadata: {} is {}, expected {}, as {}",
                keys.name("attention.value_length"), value_dim, c.attention.head_dim,
                keys.name("attention.key_length"));
  if (c.attention.kv_heads > 0) check_key_heads(keys, c, c.attention.kv_heads);
  const TensorView& embedding = file.at("token_embd.weight");
  if (embedding.shape.size() != 2)
    throw Error(ErrorKind::kFormat, "token_embd.weight: has {} dimensions, expected 2",
                embedding.shape.size());
  const auto rows_of = [&](const char* name) -> int64_t {
    const TensorView* tensor = file.find(name);
    return tensor == nullptr || tensor->shape.size() != 2 ? 0 : tensor->shape[0];
  };
  c.input.token_types = static_cast<int32_t>(rows_of("token_types.weight"));
  if (const int64_t rows = rows_of("position_embd.weight"); rows > 0)
    c.context = static_cast<int32_t>(rows);
  c.vocab = embedding.shape[0];  // some files omit vocab_size; the tensor is always present
  c.output.tied = file.find("output.weight") == nullptr;
}

// Returns a flag per layer; nullopt if the key does not exist.
std::optional<std::vector<bool>> layer_flags(const TransformerConfig& c, const Metadata& metadata,
                                             const char* name) {
  const std::string key = c.architecture + name;
  const MetaValue* value = metadata.find(key);
  if (value == nullptr || !std::holds_alternative<std::vector<int64_t>>(*value))
    return std::nullopt;
  const auto& flags = std::get<std::vector<int64_t>>(*value);
  if (flags.size() != static_cast<size_t>(c.layers) &&
      flags.size() != static_cast<size_t>(c.layers + c.mtp_layers))
    throw Error(ErrorKind::kFormat, "metadata: {} has {} entries, expected one for each of {}", key,
                flags.size(), c.layers);
  return std::vector<bool>(flags.begin(), flags.begin() + c.layers);
}

// Returns which layers are recurrent if there is no list: all except every N-th.
std::vector<bool> recurrent_pattern(const Keys& keys, int32_t layers) {
  return local_pattern(layers, static_cast<int32_t>(keys.size_or("full_attention_interval", 4)));
}

void read_state_sizes(const Keys& keys, RecurrentConfig& r) {
  r.key_size = static_cast<int32_t>(keys.size("ssm.state_size"));
  r.key_heads = static_cast<int32_t>(keys.size("ssm.group_count"));
  r.heads = static_cast<int32_t>(keys.size("ssm.time_step_rank"));
  const int64_t values = keys.size("ssm.inner_size");
  if (r.heads % r.key_heads != 0 || values % r.heads != 0)
    throw Error(ErrorKind::kFormat,
                "metadata: {} is {}, expected a multiple of {}, {}, and a divisor of {}, {}",
                keys.name("ssm.time_step_rank"), r.heads, keys.name("ssm.group_count"), r.key_heads,
                keys.name("ssm.inner_size"), values);
  r.value_size = static_cast<int32_t>(values / r.heads);
}

// Reads which layers are recurrent and which are feed-forward only. If no layer is recurrent, the
// mixer is reset.
void read_recurrent_layers(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  if (r.mixer == Mixer::kDelta) {
    r.layers = layer_flags(c, file.metadata, ".attention.recurrent_layers")
                   .value_or(recurrent_pattern(keys, c.layers));
  } else if (const auto attention = layer_flags(c, file.metadata, ".attention.head_count_kv")) {
    r.layers = *attention;
    r.layers.flip();
    // Each layer has one part; feed-forward layers have a non-zero width.
    if (const auto feeds = layer_flags(c, file.metadata, ".feed_forward_length")) {
      c.feed_forward.alone = *feeds;
      for (size_t i = 0; i < r.layers.size(); ++i)
        r.layers[i] = r.layers[i] && !c.feed_forward.alone[i];
    }
  } else if (c.positions.kind != Positions::kNone &&
             !find_architecture(c.architecture).parallel_mixers) {
    r.mixer = Mixer::kNone;  // the same number of key heads in each layer: no recurrent layers
  }
  if (!r.layers.empty() && std::ranges::count(r.layers, true) == 0) r.mixer = Mixer::kNone;
}

// Reads recurrent layers with the keys of llama.cpp's converters; xLSTM has keys of our own. Value
// heads are interleaved if key heads are repeated as a whole (Qwen 3.5).
void read_recurrent(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  if (r.mixer != Mixer::kNone) read_recurrent_layers(keys, file, c);
  if (r.mixer == Mixer::kNone) return;
  const auto size = [&](const char* key) { return static_cast<int32_t>(keys.size(key)); };
  if (r.mixer == Mixer::kRwkv7) {
    r.key_size = r.value_size = size("wkv.head_size");
    if (c.dim % r.key_size != 0)
      throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected a divisor of {}, {}",
                  keys.name("wkv.head_size"), r.key_size, keys.name("embedding_length"), c.dim);
    r.heads = r.key_heads = static_cast<int32_t>(c.dim / r.key_size);
    find_rwkv7_ranks(file, c);
    return;
  }
  if (r.mixer == Mixer::kXlstmBlocks) return find_xlstm_sizes(file, c);
  if (r.mixer == Mixer::kShortConv) {
    r.conv_width = size("shortconv.l_cache");
    return;
  }
  if (r.mixer == Mixer::kMlstm) {
    r.heads = r.key_heads = size("mlstm.head_count");
    r.key_size = size("mlstm.key_length");
    r.value_size = size("mlstm.value_length");
    r.gate_softcap = static_cast<float>(keys.number_or("mlstm.gate_softcapping", 0));
    r.divisor_eps = static_cast<float>(keys.number_or("mlstm.divisor_epsilon", r.divisor_eps));
    return;
  }
  r.conv_width = size("ssm.conv_kernel");
  if (r.mixer == Mixer::kKda) {
    r.heads = r.key_heads = static_cast<int32_t>(keys.size_or("kda.head_count", c.attention.heads));
    r.key_size = r.value_size = size("kda.head_dim");
    return;
  }
  if (r.mixer == Mixer::kMamba1) {
    r.heads = r.key_heads = 1;
    r.key_size = size("ssm.state_size");
    r.value_size = size("ssm.inner_size");
    r.rank = size("ssm.time_step_rank");
    return;
  }
  read_state_sizes(keys, r);
  if (r.mixer == Mixer::kMamba2) r.groups = r.key_heads;
  r.least_step = static_cast<float>(keys.number_or("ssm.time_step_floor", r.least_step));
  r.most_step = static_cast<float>(keys.number_or("ssm.time_step_ceiling", r.most_step));
  if (r.mixer == Mixer::kDelta && c.architecture != "qwen3next") r.map = HeadMap::kTiled;
}

// Reads expert settings with the keys of llama.cpp's converters; complete_gguf() fills in what
// depends on the architecture.
void read_experts(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  ExpertConfig& e = c.experts;
  e.count = static_cast<int32_t>(keys.size_or_zero("expert_count"));
  if (e.count == 0) return;
  e.route.used = static_cast<int32_t>(keys.size("expert_used_count"));
  e.hidden = keys.size_or_zero("expert_feed_forward_length");
  if (e.hidden == 0) e.hidden = c.feed_forward.hidden;
  const auto shared = std::ranges::find_if(file.tensors, [](const TensorView& tensor) {
    return tensor.name.ends_with("ffn_up_shexp.weight") && tensor.shape.size() == 2;
  });
  if (shared != file.tensors.end()) e.shared_hidden = shared->shape[0];
  e.latent = keys.size_or_zero("moe_latent_size");
  e.route.normalise = keys.flag_or("expert_weights_norm", false);
  const double scale = keys.number_or("expert_weights_scale", 0);
  e.route.scale = scale == 0 ? 1 : static_cast<float>(scale);
  const int64_t gating = keys.size_or_zero("expert_gating_func");
  const auto corrected = std::ranges::find_if(file.tensors, [](const TensorView& tensor) {
    return tensor.name.ends_with("exp_probs_b.bias");
  });
  constexpr int64_t kSigmoid = 2, kSoftmaxOfChosen = 3;  // 1: softmax
  if (gating > kSoftmaxOfChosen)
    throw Error(ErrorKind::kUnsupported, "metadata: expert_gating_func is {}, expected 1 to 3",
                gating);
  // Unless the file states otherwise, models with a score bias use sigmoids.
  e.route.sigmoid = gating == kSigmoid || (gating == 0 && corrected != file.tensors.end());
  if (gating == kSoftmaxOfChosen) e.route.normalise = true;
  if (keys.size_or_zero("expert_group_count") > 1) {
    e.route.groups = static_cast<int32_t>(keys.size("expert_group_count"));
    e.route.groups_used = static_cast<int32_t>(keys.size("expert_group_used_count"));
    e.route.group_best = e.route.sigmoid ? 2 : 1;
  }
}

// Reads the sparse attention index. Files of models that index in all layers omit the layer list.
void read_index(const Keys& keys, const ModelFile& file, TransformerConfig& c) {
  IndexConfig& index = c.index;
  index.used = static_cast<int32_t>(keys.size_or_zero("attention.indexer.top_k"));
  if (index.used == 0) return;
  index.heads = static_cast<int32_t>(keys.size("attention.indexer.head_count"));
  index.head_dim = static_cast<int32_t>(keys.size("attention.indexer.key_length"));
  const std::vector<bool> all(static_cast<size_t>(c.layers), true);
  index.layers = layer_flags(c, file.metadata, ".attention.indexer.types").value_or(all);
  check_index(c, "metadata", keys.name("rope.dimension_count"));
}

// Returns the layers with a window: one flag per layer, a period, or the architecture's default.
std::vector<bool> read_local(const TransformerConfig& c, const Metadata& metadata, int32_t usual) {
  if (auto flags = layer_flags(c, metadata, ".attention.sliding_window_pattern")) return *flags;
  const std::string key = c.architecture + ".attention.sliding_window_pattern";
  const int64_t period = metadata.integer(key).value_or(usual);
  if (period < 0 || period > kMaxSize)
    throw Error(ErrorKind::kFormat, "metadata: {} is {}, expected 0 or more", key, period);
  return local_pattern(c.layers, static_cast<int32_t>(period));
}

// Reads one RoPE base per layer, 0 for layers without RoPE; a key of our own.
void read_layer_thetas(const Metadata& metadata, TransformerConfig& c) {
  const std::string key = c.architecture + ".rope.freq_base_layers";
  const std::vector<double>* list = metadata.numbers(key);
  if (list == nullptr) return;
  if (list->size() != static_cast<size_t>(c.layers))
    throw Error(ErrorKind::kFormat, "metadata: {} has {} entries, expected one for each of {}", key,
                list->size(), c.layers);
  for (const double theta : *list)
    if (theta != 0) check_number("metadata", key, "rope_theta", theta);
  c.positions.thetas = *list;
}

// These keys are our own: no other program writes such files.
void read_source(const Keys& keys, TransformerConfig& c) {
  SourceConfig& s = c.source;
  s.layers = static_cast<int32_t>(keys.size("encoder.block_count"));
  s.heads = static_cast<int32_t>(keys.size("encoder.attention.head_count"));
  s.hidden = keys.size("encoder.feed_forward_length");
  s.positions = static_cast<int32_t>(keys.size("encoder.context_length"));
  s.bands = keys.size("encoder.num_mel_bins");
  check_source(c, "metadata");
}

}  // namespace

TransformerConfig read_config(const ModelFile& file) {
  if (file.container == Container::kFolder) return read_folder_config(file);
  const auto name = file.metadata.text("general.architecture");
  if (!name) throw Error(ErrorKind::kFormat, "metadata: missing general.architecture");
  const Architecture& architecture = find_architecture(*name);
  const Keys keys(file.metadata, *name);
  TransformerConfig c = initial_config(architecture);
  read_sizes(keys, file, c);
  c.norms.eps = static_cast<float>(
      keys.number_or("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", 1e-5));
  if (c.positions.kind == Positions::kRope) read_rope(keys, c);
  c.attention.window = static_cast<int32_t>(keys.size_or_zero("attention.sliding_window"));
  if (c.attention.window > 0)
    c.attention.local = read_local(c, file.metadata, architecture.gguf_global_period);
  if (architecture.layer_sizes) read_layer_sizes(keys, file, c);
  c.attention.scale = static_cast<float>(
      keys.number_or("attention.scale", 1 / std::sqrt(static_cast<double>(c.attention.head_dim))));
  c.input.scale = static_cast<float>(keys.number_or("embedding_scale", 1));
  c.residual.scale = static_cast<float>(keys.number_or("residual_scale", 1));
  c.output.scale = static_cast<float>(keys.number_or("logit_scale", 1));
  c.residual.parallel = keys.flag_or("use_parallel_residual", false);
  if (const double clamp = keys.number_or("attention.clamp_kqv", 0); clamp != 0)
    throw Error(ErrorKind::kUnsupported, "metadata: {}.attention.clamp_kqv is {}", *name, clamp);
  if (architecture.gguf_interleaved_rope) c.positions.interleaved = true;
  c.attention.softcap = static_cast<float>(keys.number_or("attn_logit_softcapping", 0));
  c.output.softcap = static_cast<float>(keys.number_or("final_logit_softcapping", 0));
  c.positions.local_rope = c.positions.rope;
  c.positions.local_rope.theta = keys.number_or("rope.freq_base_swa", c.positions.rope.theta);
  read_layer_thetas(file.metadata, c);
  read_experts(keys, file, c);
  if (architecture.encoder != nullptr) read_source(keys, c);
  if (c.latent.rank > 0) read_index(keys, file, c);
  c.recurrent.mixer = architecture.mixer;
  read_recurrent(keys, file, c);
  architecture.complete_gguf(c, file.metadata);
  architecture.complete(c);
  check_residual_scale(c, "metadata");
  if (const auto rotated = layer_flags(c, file.metadata, ".attention.rope_pattern")) {
    c.positions.unrotated = *rotated;
    c.positions.unrotated.flip();
  }
  if (c.experts.count > 0)
    check_experts(c.experts,
                  {"metadata", keys.name("expert_used_count"), keys.name("expert_group_count"),
                   keys.name("expert_group_used_count")});
  return c;
}

}  // namespace veery
