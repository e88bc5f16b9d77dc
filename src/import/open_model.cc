#include "import/open_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "file/folder/find_model.h"
#include "file/folder/folder.h"
#include "file/folder/row_sources.h"
#include "file/gguf/gguf.h"
#include "import/expert_tensors.h"
#include "import/folder/folder_config.h"
#include "import/folder/folder_rope.h"
#include "import/folder/speech_keys.h"
#include "import/ggml_speech.h"
#include "import/latent_tensors.h"
#include "import/names/folder_names.h"
#include "import/read_config.h"
#include "import/recurrent_tensors.h"
#include "import/sampling_keys.h"
#include "import/unused_tensors.h"
#include "import/xlstm_tensors.h"
#include "model/arch/registry.h"
#include "model/config.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

// A tensor of numbers from a folder's configuration.
class Numbers final : public RowSource {
 public:
  explicit Numbers(std::vector<float> values) : values_(std::move(values)) {}
  void read(int64_t, int64_t, std::byte* out) const override {
    std::memcpy(out, values_.data(), values_.size() * sizeof(float));
  }

 private:
  std::vector<float> values_;
};

// Adds RoPE divisors as a tensor with GGUF's name.
void add_tensor(ModelFile& file, const char* name, std::vector<float> values) {
  if (values.empty()) return;
  TensorView& tensor = file.tensors.emplace_back();
  tensor.name = name;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.source = std::make_shared<Numbers>(std::move(values));
}

void add_rope_factors(ModelFile& file) {
  RopeFactors factors = folder_rope_factors(file);
  add_tensor(file, "rope_factors_short.weight", std::move(factors.shorter));
  add_tensor(file, "rope_factors_long.weight", std::move(factors.longer));
  add_tensor(file, "rope_freqs.weight", std::move(factors.all));
}

// Checks RoPE divisors in GGUF files, which are weights there, so that no key could be named.
void check_divisors(const ModelFile& file) {
  for (const char* name :
       {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}) {
    const TensorView* tensor = file.find(name);
    if (tensor == nullptr || !info(tensor->dtype).decodable) continue;
    std::vector<std::byte> buffer;
    std::vector<float> values(static_cast<size_t>(tensor->elements()));
    decode(tensor->dtype, tensor->read(buffer), values);
    for (size_t i = 0; i < values.size(); ++i)
      check_number(file.path, fmt::format("{}[{}]", name, i), name, values[i]);
  }
}

void add_one_to_norms(ModelFile& file) {
  for (TensorView& tensor : file.tensors) {
    if (!tensor.name.ends_with("norm.weight") || tensor.name.ends_with("ssm_norm.weight")) continue;
    tensor.source = make_sum(tensor, 1);
    tensor.dtype = DType::kF32;
    tensor.data = {};
  }
}

// mlx-lm stores convolution weights as (channels, width, 1).
bool is_mlx_convolution(const TensorView& tensor) {
  return tensor.name.ends_with("ssm_conv1d.weight") && tensor.shape.size() == 3 &&
         tensor.shape[1] > 1 && tensor.shape[2] == 1;
}

// mlx-lm has already added 1 when it wrote a folder of Qwen3-Next or 3.5.
void add_one_unless_mlx(ModelFile& file) {
  if (std::ranges::none_of(file.tensors, is_mlx_convolution)) add_one_to_norms(file);
}

// Folders of Qwen3-Next and 3.5 store the MTP layer under its own prefix; GGUF appends it to the
// other layers.
constexpr std::string_view kMtpPrefix = "mtp.";
constexpr std::pair<std::string_view, std::string_view> kMtpNames[] = {
    {"fc.weight", "nextn.eh_proj.weight"},
    {"pre_fc_norm_embedding.weight", "nextn.enorm.weight"},
    {"pre_fc_norm_hidden.weight", "nextn.hnorm.weight"},
    {"norm.weight", "nextn.shared_head_norm.weight"}};

std::string further_name(std::string_view architecture, std::string_view name, int64_t layers) {
  name.remove_prefix(kMtpPrefix.size());
  for (const auto& [theirs, ours] : kMtpNames)
    if (name == theirs) return fmt::format("blk.{}.{}", layers, ours);
  constexpr std::string_view kFirst = "layers.0.";
  if (!name.starts_with(kFirst)) return {};
  name.remove_prefix(kFirst.size());
  return our_name(architecture, fmt::format("model.layers.{}.{}", layers, name));
}

bool has_mixer(std::string_view architecture, Mixer mixer) {
  return find_architecture(architecture).mixer == mixer;
}

void rename(ModelFile& file, std::string_view architecture) {
  const bool further = has_mixer(architecture, Mixer::kDelta);
  const int64_t layers = folder_layers(file).own;
  for (TensorView& tensor : file.tensors) {
    std::string name = further && tensor.name.starts_with(kMtpPrefix)
                           ? further_name(architecture, tensor.name, layers)
                           : our_name(architecture, tensor.name);
    if (!name.empty()) {
      tensor.name = std::move(name);
      continue;
    }
    if (named_layer(tensor.name) >= 0 && !is_auxiliary_tensor(tensor.name))
      throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' is not part of a {} model", file.path,
                  printable(tensor.name), architecture);
  }
  std::vector<std::string_view> names;
  for (const TensorView& tensor : file.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw Error(ErrorKind::kFormat, "{}: two tensors map to {}", file.path, printable(*twice));
}

// A tensor that only MTP layers have.
constexpr std::string_view kMtpPart = ".eh_proj.weight";

// Drops MTP layers after the model's own layers. Other surplus layers stay, because they indicate
// that configuration and weights contradict each other.
void drop_mtp_layers(ModelFile& file) {
  const FolderLayers layers = folder_layers(file);
  if (layers.own == 0) return;
  std::set<int64_t> further;
  for (int64_t i = 0; i < layers.further; ++i) further.insert(layers.own + i);
  for (const TensorView& tensor : file.tensors)
    if (tensor.name.ends_with(kMtpPart) && named_layer(tensor.name) >= layers.own)
      further.insert(named_layer(tensor.name));
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    return further.contains(named_layer(tensor.name));
  });
}

// GPT-2 stores (in, out). MLX has already transposed the weights, which the joint projection's
// shape shows.
void transpose_conv1d(ModelFile& file) {
  const TensorView* joint = file.find("blk.0.attn_qkv.weight");
  if (joint == nullptr || joint->shape.size() != 2 || joint->shape[0] > joint->shape[1]) return;
  for (TensorView& tensor : file.tensors)
    for (const char* end :
         {"attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"})
      if (tensor.name.ends_with(end) && tensor.shape.size() == 2) tensor = transposed(tensor);
}

// The joint projection groups the queries that share a key head with that key and value; reorders
// it to all queries, all keys, all values.
void gather_heads(ModelFile& file) {
  const TransformerConfig c = read_config(file);
  const int64_t queries = c.attention.heads / c.attention.kv_heads;
  std::vector<int64_t> order;
  const auto add = [&](int64_t group, int64_t head) {
    for (int64_t i = 0; i < c.attention.head_dim; ++i)
      order.push_back((group * (queries + 2) + head) * c.attention.head_dim + i);
  };
  for (int64_t head = 0; head < c.attention.heads; ++head) add(head / queries, head % queries);
  for (const int64_t part : {queries, queries + 1})
    for (int64_t group = 0; group < c.attention.kv_heads; ++group) add(group, part);
  for (TensorView& tensor : file.tensors)
    if (tensor.name.find(".attn_qkv.") != std::string::npos) tensor = reordered_rows(tensor, order);
}

// The shared expert has one matrix for gate and up; in models without experts it is the
// feed-forward part.
void split_shared(ModelFile& file) {
  constexpr std::string_view kJoint = "ffn_gate_up_shexp.weight";
  const bool mixture = std::ranges::any_of(file.tensors, [](const TensorView& tensor) {
    return tensor.name.ends_with("ffn_gate_inp.weight");
  });
  const std::string end = mixture ? "_shexp.weight" : ".weight";
  std::vector<TensorView> tensors;
  for (TensorView& tensor : file.tensors) {
    const std::string layer = tensor.name.substr(0, tensor.name.rfind("ffn_"));
    if (tensor.name.ends_with("ffn_down_shexp.weight")) tensor.name = layer + "ffn_down" + end;
    if (!tensor.name.ends_with(kJoint) || tensor.shape.size() != 2) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    const int64_t half = tensor.shape[0] / 2;
    tensors.push_back(slice_rows(tensor, layer + "ffn_gate" + end, 0, half));
    tensors.push_back(slice_rows(tensor, layer + "ffn_up" + end, half, 2 * half));
  }
  file.tensors = std::move(tensors);
}

// Joins norms that are stored per head.
void join_head_norms(ModelFile& file) {
  std::map<std::string, std::map<int64_t, TensorView>> found;
  std::vector<TensorView> kept;
  for (TensorView& tensor : file.tensors) {
    const size_t at = tensor.name.find("_norm.");
    int64_t head = -1;
    if (at != std::string::npos)
      std::from_chars(tensor.name.data() + at + 6, tensor.name.data() + tensor.name.size(), head);
    if (head < 0)
      kept.push_back(std::move(tensor));
    else
      found[tensor.name.substr(0, at + 5)].emplace(head, std::move(tensor));
  }
  for (auto& [name, heads] : found) {
    if (heads.rbegin()->first != std::ssize(heads) - 1)
      throw Error(ErrorKind::kFormat, "{}: {}: found {} heads, but the highest index is {}",
                  file.path, printable(name), heads.size(), heads.rbegin()->first);
    std::vector<TensorView> parts;
    for (auto& [head, tensor] : heads) parts.push_back(std::move(tensor));
    kept.push_back(stack_tensors(std::move(parts), name + ".weight"));
    kept.back() = reshaped(kept.back(), {kept.back().elements()});
  }
  file.tensors = std::move(kept);
}

void drop_positions(ModelFile& file, int64_t rows) {
  for (TensorView& tensor : file.tensors)
    if (tensor.name == "position_embd.weight" && tensor.shape.size() == 2 && tensor.shape[0] > rows)
      tensor = slice_rows(tensor, tensor.name, rows, tensor.shape[0]);
}

// Drops unused rows of the position table: OPT's starts with two of them, RoBERTa's with those up
// to the padding token's id.
void drop_first_positions(ModelFile& file) { drop_positions(file, 2); }
void drop_padding_positions(ModelFile& file) {
  const auto pad = file.config->find("pad_token_id");
  const bool given = pad != file.config->end() && pad->is_number_unsigned() &&
                     pad->get<uint64_t>() < static_cast<uint64_t>(kMaxSize);
  drop_positions(file, given ? pad->get<int64_t>() + 1 : 2);
}

// Drops value projections of layers whose values are their keys.
void drop_unread_values(ModelFile& file) {
  const TransformerConfig c = read_config(file);
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    const auto layer = static_cast<int32_t>(layer_part(tensor.name).first);
    return c.attention.values_are_keys && layer >= 0 && layer < c.layers && !c.is_local(layer) &&
           tensor.name.find(".attn_v.") != std::string::npos;
  });
}

// Reshapes convolutions (out, in, width) to matrices whose columns hold the previous, current and
// next frame. The encoder's position table is treated like the decoder's.
void flatten_convolutions(ModelFile& file) {
  for (TensorView& tensor : file.tensors)
    if (tensor.name.starts_with("enc.conv") && tensor.shape.size() == 3)
      tensor = reshaped(transposed(tensor), {tensor.shape[0], tensor.shape[1] * tensor.shape[2]});
}

// mlx-lm's folders of Falcon-H1 have the multipliers folded into the weights, except those on keys
// and, on the attention input, on values. The latter is equivalent to a factor on the attention
// output. config.json still contains all of them.
void drop_folded_multipliers(ModelFile& file) {
  const TensorView* conv = file.find("blk.0.ssm_conv1d.weight");
  if (conv == nullptr || !is_mlx_convolution(*conv)) return;
  Json config = *file.config;
  const auto factor = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number() ? found->get<double>() : 1;
  };
  const bool tied = file.find("output.weight") == nullptr;
  const double embedding = factor("embedding_multiplier");
  config["lm_head_multiplier"] =
      tied && embedding != 0 ? factor("lm_head_multiplier") / embedding : 1;
  config["attention_out_multiplier"] = factor("attention_in_multiplier");
  for (const char* key : {"embedding_multiplier", "attention_in_multiplier", "ssm_in_multiplier",
                          "ssm_out_multiplier", "mlp_multipliers", "ssm_multipliers"})
    config.erase(key);
  file.config = std::make_shared<const Json>(std::move(config));
}

// Conversions that folders of an architecture need.
struct FolderStep {
  std::string_view architecture;
  void (*apply)(ModelFile&);
};
constexpr FolderStep kFolderSteps[] = {{"gemma", add_one_to_norms},
                                       {"gemma2", add_one_to_norms},
                                       {"gemma3", add_one_to_norms},
                                       {"gemma4", drop_unread_values},
                                       {"deepseek2", split_latent},
                                       {"deepseek32", split_latent},
                                       {"glm-dsa", split_latent},
                                       {"mistral4", split_latent},
                                       {"granitemoe", split_shared},
                                       {"granite_swa", split_shared},
                                       {"gpt2", transpose_conv1d},
                                       {"gptneox", gather_heads},
                                       {"internlm2", gather_heads},
                                       {"falcon", gather_heads},
                                       {"bloom", gather_heads},
                                       {"qwen3next", add_one_unless_mlx},
                                       {"qwen35", add_one_unless_mlx},
                                       {"qwen35moe", add_one_unless_mlx},
                                       {"qwen3next", arrange_recurrent},
                                       {"qwen35", arrange_recurrent},
                                       {"qwen35moe", arrange_recurrent},
                                       {"mamba2", arrange_recurrent},
                                       {"lfm2", arrange_recurrent},
                                       {"lfm2moe", arrange_recurrent},
                                       {"lfm3", arrange_recurrent},
                                       {"xlstm", arrange_recurrent},
                                       {"xlstm-lm", add_one_to_norms},
                                       {"xlstm-lm", arrange_xlstm_blocks},
                                       {"granitehybrid", split_shared},
                                       {"granitehybrid", arrange_recurrent},
                                       {"bamba", arrange_recurrent},
                                       {"nemotron_h", arrange_recurrent},
                                       {"falcon-h1", drop_folded_multipliers},
                                       {"falcon-h1", arrange_recurrent},
                                       {"jamba", arrange_recurrent},
                                       {"rwkv7", arrange_recurrent},
                                       {"kimi-linear", split_latent},
                                       {"kimi-linear", arrange_recurrent},
                                       {"nemotron", add_one_to_norms},
                                       {"stablelm", join_head_norms},
                                       {"opt", drop_first_positions},
                                       {"whisper", flatten_convolutions},
                                       {"xlm-roberta", drop_padding_positions}};

// Flattens per-head norm weights, which are matrices.
void flatten_norms(ModelFile& file) {
  for (TensorView& tensor : file.tensors)
    if (tensor.name.ends_with("_norm.weight") && tensor.shape.size() == 2 && !tensor.source)
      tensor.shape = {tensor.elements()};
}

// Some GGUF files store gate and up of the shared expert as one matrix named "up".
void split_shared_gguf(ModelFile& file) {
  constexpr std::string_view kUp = "ffn_up_shexp.weight";
  std::vector<TensorView> tensors;
  for (TensorView& tensor : file.tensors) {
    const std::string layer = tensor.name.substr(0, tensor.name.rfind("ffn_"));
    if (!tensor.name.ends_with(kUp) || tensor.shape.size() != 2 || tensor.shape[0] % 2 != 0 ||
        file.find(layer + "ffn_gate_shexp.weight") != nullptr) {
      tensors.push_back(tensor);
      continue;
    }
    const int64_t half = tensor.shape[0] / 2;
    tensors.push_back(slice_rows(tensor, layer + "ffn_gate_shexp.weight", 0, half));
    tensors.push_back(slice_rows(tensor, tensor.name, half, 2 * half));
  }
  file.tensors = std::move(tensors);
}

// Renames tensors that GGUF names differently for some architectures.
void rename_gguf(ModelFile& file) {
  const auto architecture = file.metadata.text("general.architecture");
  if (architecture == "granite_swa") split_shared_gguf(file);
  if (architecture == "falcon-h1")  // written without suffix
    for (TensorView& tensor : file.tensors)
      if (tensor.name.ends_with(".ffn_norm")) tensor.name += ".weight";
  // GGUF names the final norm of LFM like a norm after the embedding.
  if (architecture && architecture->starts_with("lfm"))
    for (TensorView& tensor : file.tensors)
      if (tensor.name == "token_embd_norm.weight") tensor.name = "output_norm.weight";
  constexpr std::string_view kRenamed[] = {"gpt-oss",   "glm4moe", "seed_oss",
                                           "qwen3next", "qwen35",  "qwen35moe"};
  if (!architecture || std::ranges::find(kRenamed, *architecture) == std::end(kRenamed)) return;
  constexpr std::string_view kTheirs = "post_attention_norm.weight";
  for (TensorView& tensor : file.tensors)
    if (tensor.name.ends_with(kTheirs))
      tensor.name.replace(tensor.name.size() - kTheirs.size(), kTheirs.size(), "ffn_norm.weight");
}

// Splits `name` along its rows into parts with the given names and sizes.
void split(ModelFile& file, const std::string& name,
           std::span<const std::pair<std::string, int64_t>> parts) {
  const auto found = std::ranges::find(file.tensors, name, &TensorView::name);
  if (found == file.tensors.end()) return;
  const TensorView whole = *found;
  int64_t rows = 0;
  for (const auto& [part, size] : parts) rows += size;
  if (whole.shape.empty() || whole.shape[0] != rows)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has {} rows, the configuration says {}",
                file.path, name, whole.shape.empty() ? 0 : whole.shape[0], rows);
  file.tensors.erase(found);
  int64_t begin = 0;
  for (const auto& [part, size] : parts) {
    file.tensors.push_back(slice_rows(whole, part, begin, begin + size));
    begin += size;
  }
}

// Returns whether the architecture has recurrent layers.
bool has_recurrent(const ModelFile& file) {
  const auto name = file.metadata.text("general.architecture");
  return name && std::ranges::any_of(architectures(), [&](const Architecture& row) {
           return row.name == *name && row.mixer != Mixer::kNone;
         });
}

bool is_joint(const TensorView& tensor) {
  return tensor.name.starts_with("blk.0.attn_qkv.") ||
         tensor.name.starts_with("blk.0.ffn_gate_up.");
}

// Some files store projections of the same input as one matrix.
void split_joint(ModelFile& file) {
  constexpr std::string_view kJointUp[] = {"phi3", "glm4", "chatglm", "modern-bert",
                                           "jina-bert-v2"};
  const std::string name = file.metadata.text("general.architecture").value_or("");
  const bool phi =
      file.container == Container::kGguf && std::ranges::find(kJointUp, name) != std::end(kJointUp);
  if (!phi && std::ranges::none_of(file.tensors, is_joint)) return;
  const TransformerConfig c = read_config(file);
  for (int32_t layer = 0; layer < c.layers; ++layer) {
    const int64_t q = int64_t{c.attention.heads} * c.head_dim_of(layer);
    const int64_t kv = int64_t{c.kv_heads_of(layer)} * c.head_dim_of(layer);
    for (const char* kind : {".weight", ".bias"}) {
      const auto part = [&](const char* which) {
        return fmt::format("blk.{}.{}{}", layer, which, kind);
      };
      const std::pair<std::string, int64_t> qkv[] = {
          {part("attn_q"), q}, {part("attn_k"), kv}, {part("attn_v"), kv}};
      split(file, part("attn_qkv"), qkv);
      const std::pair<std::string, int64_t> ffn[] = {{part("ffn_gate"), c.feed_forward.hidden},
                                                     {part("ffn_up"), c.feed_forward.hidden}};
      const std::string joint = part("ffn_gate_up");
      split(file, joint, ffn);
      // GGUF names the joint gate and up matrix "up".
      const TensorView* up = file.find(part("ffn_up"));
      if (phi && up != nullptr && up->shape[0] == 2 * c.feed_forward.hidden)
        split(file, part("ffn_up"), ffn);
    }
  }
}

// Reads the recommended sampling settings of a folder, under GGUF's keys.
void read_generation_config(const std::string& folder, Metadata& metadata) {
  const std::string path = folder + "/generation_config.json";
  if (!path_exists(path)) return;
  const Json config = read_json_file(path);
  for (const auto& [theirs, ours] : kSamplingKeys) {
    const auto value = config.find(theirs);
    if (value != config.end() && value->is_number())
      metadata.set(std::string(ours), value->get<double>());
  }
  const auto top_k = config.find("top_k");
  if (top_k != config.end() && top_k->is_number_unsigned() && top_k->get<uint64_t>() <= INT32_MAX)
    metadata.set("general.sampling.top_k", top_k->get<int64_t>());
  read_speech_keys(config, path, metadata);
}

void name_folder(ModelFile& file, std::string_view architecture, const std::string& found) {
  std::error_code code;
  fs::path folder = fs::canonical(file.path, code);
  file.metadata.set("general.name", folder.filename().string());
  file.metadata.set("general.architecture",
                    architecture.empty() ? found : std::string(architecture));
}

void arrange_gguf(ModelFile& file) {
  rename_gguf(file);
  gather_experts(file, {});
  flatten_norms(file);
  if (has_recurrent(file)) arrange_recurrent(file);
  split_joint(file);
  split_latent(file);
  check_divisors(file);
}

void arrange_folder(ModelFile& file) {
  std::string found;
  const std::string_view architecture = folder_architecture(file, found);
  name_folder(file, architecture, found);
  read_generation_config(file.path, file.metadata);
  if (architecture.empty()) return;
  drop_mtp_layers(file);
  rename(file, architecture);
  gather_experts(file, architecture);
  flatten_norms(file);
  for (const FolderStep& step : kFolderSteps)
    if (step.architecture == architecture) step.apply(file);
  split_joint(file);
  add_rope_factors(file);
}

}  // namespace

ModelFile open_model_file(const std::string& path) {
  const bool speech = is_ggml_speech(MappedFile(path).bytes());
  return speech ? open_ggml_speech(path) : open_gguf(path);
}

ModelFile open_model(const std::string& meant) {
  const std::string path = find_model(meant);
  const bool folder = is_folder(path);
  ModelFile file = folder ? open_folder(path) : open_model_file(path);
  file.checked([&] { folder ? arrange_folder(file) : arrange_gguf(file); });
  return file;
}

}  // namespace veery
