#include "model/open_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "file/folder.h"
#include "file/gguf.h"
#include "file/printable.h"
#include "file/row_sources.h"
#include "model/config.h"
#include "model/expert_tensors.h"
#include "model/folder_config.h"
#include "model/folder_rope.h"
#include "model/latent_tensors.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

struct NameRow {
  std::string_view theirs, ours;
};
constexpr NameRow kTop[] = {{"embed_tokens", "token_embd"}, {"norm", "output_norm"},
                            {"lm_head", "output"},          {"wte", "token_embd"},
                            {"wpe", "position_embd"},       {"ln_f", "output_norm"},
                            {"embed_in", "token_embd"},     {"final_layer_norm", "output_norm"},
                            {"embed_out", "output"},        {"final_layernorm", "output_norm"}};
constexpr NameRow kLayer[] = {{"input_layernorm", "attn_norm"},
                              {"self_attn.q_proj", "attn_q"},
                              {"self_attn.k_proj", "attn_k"},
                              {"self_attn.v_proj", "attn_v"},
                              {"self_attn.o_proj", "attn_output"},
                              {"self_attn.q_norm", "attn_q_norm"},
                              {"self_attn.k_norm", "attn_k_norm"},
                              {"self_attn.sinks", "attn_sinks"},
                              {"self_attn.q_a_proj", "attn_q_a"},
                              {"self_attn.q_a_layernorm", "attn_q_a_norm"},
                              {"self_attn.q_b_proj", "attn_q_b"},
                              {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                              {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                              {"self_attn.kv_b_proj", "attn_kv_b"},
                              {"self_attn.embed_q", "attn_k_b"},
                              {"self_attn.unembed_out", "attn_v_b"},
                              {"self_attn.qkv_proj", "attn_qkv"},
                              {"post_self_attn_layernorm", "post_attention_norm"},
                              {"post_mlp_layernorm", "post_ffw_norm"},
                              {"shared_mlp.input_linear", "ffn_gate_up_shexp"},
                              {"shared_mlp.output_linear", "ffn_down_shexp"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                              {"mlp.gate_up_proj", "ffn_gate_up"},
                              {"ln_1", "attn_norm"},
                              {"ln_2", "ffn_norm"},
                              {"attn.c_attn", "attn_qkv"},
                              {"attn.c_proj", "attn_output"},
                              {"mlp.c_fc", "ffn_up"},
                              {"mlp.c_proj", "ffn_down"},
                              {"attention.query_key_value", "attn_qkv"},
                              {"attention.dense", "attn_output"},
                              {"self_attn.dense", "attn_output"},
                              {"mlp.dense_h_to_4h", "ffn_up"},
                              {"mlp.dense_4h_to_h", "ffn_down"},
                              {"mlp.fc1", "ffn_up"},
                              {"mlp.fc2", "ffn_down"},
                              {"self_attn.q_layernorm", "attn_q_norm"},
                              {"self_attn.k_layernorm", "attn_k_norm"}};
// Mixtures of experts: what the part of a layer is called, and what is in it.
constexpr std::string_view kMixtures[] = {"mlp.", "block_sparse_moe.", "feed_forward."};
constexpr NameRow kMixture[] = {{"gate", "ffn_gate_inp"},
                                {"router", "ffn_gate_inp"},
                                {"router.layer", "ffn_gate_inp"},
                                {"gate_proj", "ffn_gate"},
                                {"up_proj", "ffn_up"},
                                {"down_proj", "ffn_down"},
                                {"shared_expert.gate_proj", "ffn_gate_shexp"},
                                {"shared_expert.up_proj", "ffn_up_shexp"},
                                {"shared_expert.down_proj", "ffn_down_shexp"},
                                {"shared_experts.gate_proj", "ffn_gate_shexp"},
                                {"shared_experts.up_proj", "ffn_up_shexp"},
                                {"shared_experts.down_proj", "ffn_down_shexp"},
                                {"shared_expert_gate", "ffn_gate_inp_shexp"},
                                {"switch_mlp.gate_proj", "ffn_gate_exps"},
                                {"switch_mlp.up_proj", "ffn_up_exps"},
                                {"switch_mlp.down_proj", "ffn_down_exps"},
                                {"experts.gate_proj", "ffn_gate_exps"},
                                {"experts.up_proj", "ffn_up_exps"},
                                {"experts.down_proj", "ffn_down_exps"},
                                {"experts.gate_up_proj", "ffn_gate_up_exps"},
                                {"input_linear", "ffn_gate_up_exps"},
                                {"output_linear", "ffn_down_exps"}};
// Of one expert: "experts.3.w1".
constexpr NameRow kExpert[] = {{"w1", "ffn_gate"},    {"w3", "ffn_up"},
                               {"w2", "ffn_down"},    {"gate_proj", "ffn_gate"},
                               {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};
// Ends of names that say neither weight nor bias.
constexpr NameRow kEnds[] = {{"experts.gate_up_proj", "experts.gate_up_proj.weight"},
                             {"experts.down_proj", "experts.down_proj.weight"},
                             {"experts.gate_up_proj_bias", "experts.gate_up_proj.bias"},
                             {"experts.down_proj_bias", "experts.down_proj.bias"},
                             {"gate.e_score_correction_bias", "exp_probs_b.bias"},
                             {"self_attn.sinks", "self_attn.sinks.weight"}};
// The second norm of a layer without norms behind its parts, and the norms of one with them.
constexpr NameRow kPlainNorms[] = {{"post_attention_layernorm", "ffn_norm"}};
constexpr NameRow kSandwichNorms[] = {{"post_attention_layernorm", "post_attention_norm"},
                                      {"pre_feedforward_layernorm", "ffn_norm"},
                                      {"post_feedforward_layernorm", "post_ffw_norm"}};

// What the text part is called in models that have other parts too; longer ones first.
constexpr std::string_view kPrefixes[] = {"language_model.model.", "model.language_model.",
                                          "language_model.",       "model.",
                                          "transformer.",          "gpt_neox."};
// What the list of layers is called.
constexpr std::string_view kLayerLists[] = {"layers.", "h."};

// What lies beside weights and is no weight of a layer.
constexpr std::string_view kNoWeights[] = {"rotary_emb.inv_freq", "_scale",      "_scale_inv",
                                           "_zero_point",         "masked_bias", ".attn.bias",
                                           ".attention.bias"};

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

// The prefix of a tensor of a layer; empty if it is none.
std::string_view layer_list(std::string_view name) {
  for (const std::string_view list : kLayerLists)
    if (name.starts_with(list)) return list;
  return {};
}

template <size_t N>
std::string_view look_up(const NameRow (&table)[N], std::string_view name) {
  const auto row = std::ranges::find(table, name, &NameRow::theirs);
  return row == std::end(table) ? std::string_view() : row->ours;
}

std::string_view layer_part(std::string_view architecture, std::string_view part) {
  constexpr std::string_view kBehind[] = {"gemma2", "gemma3", "olmo2", "exaone4"};
  const bool sandwich = std::ranges::find(kBehind, architecture) != std::end(kBehind);
  const std::string_view norm =
      sandwich ? look_up(kSandwichNorms, part) : look_up(kPlainNorms, part);
  return norm.empty() ? look_up(kLayer, part) : norm;
}

// The name of a part of a mixture, "mlp.experts.3.gate_proj": "ffn_gate.3". Empty if it is none.
std::string mixture_part(std::string_view part) {
  const auto mixture = std::ranges::find_if(
      kMixtures, [&](std::string_view prefix) { return part.starts_with(prefix); });
  if (mixture == std::end(kMixtures)) return {};
  part.remove_prefix(mixture->size());
  if (part == "exp_probs_b") return std::string(part);
  if (const std::string_view ours = look_up(kMixture, part); !ours.empty())
    return std::string(ours);
  constexpr std::string_view kExperts = "experts.";
  const size_t dot = part.rfind('.');
  if (!part.starts_with(kExperts) || dot < kExperts.size()) return {};
  const std::string_view ours = look_up(kExpert, part.substr(dot + 1));
  const std::string_view number = part.substr(kExperts.size(), dot - kExperts.size());
  const bool digits =
      !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return ours.empty() || !digits ? std::string() : fmt::format("{}.{}", ours, number);
}

// Numbers that the metadata of a folder has no tensor for.
class Numbers final : public RowSource {
 public:
  explicit Numbers(std::vector<float> values) : values_(std::move(values)) {}
  void read(int64_t, int64_t, std::byte* out) const override {
    std::memcpy(out, values_.data(), values_.size() * sizeof(float));
  }

 private:
  std::vector<float> values_;
};

// The divisors of longrope, under GGUF's names.
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
}

void add_one_to_norms(ModelFile& file) {
  for (TensorView& tensor : file.tensors) {
    if (!tensor.name.ends_with("norm.weight")) continue;
    tensor.source = make_sum(tensor, 1);
    tensor.dtype = DType::kF32;
    tensor.data = {};
  }
}

void rename(ModelFile& file, std::string_view architecture) {
  for (TensorView& tensor : file.tensors) {
    std::string name = our_name(architecture, tensor.name);
    if (!name.empty()) {
      tensor.name = std::move(name);
      continue;
    }
    if (layer_list(without_prefix(tensor.name)).empty()) continue;
    if (std::ranges::none_of(kNoWeights,
                             [&](std::string_view end) { return tensor.name.ends_with(end); }))
      throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' has no place in a {} model", file.path,
                  printable(tensor.name), architecture);
  }
  std::vector<std::string_view> names;
  for (const TensorView& tensor : file.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw Error(ErrorKind::kFormat, "{}: two tensors stand for {}", file.path, printable(*twice));
}

// Layers behind those of the model predict further tokens. They are not needed.
void drop_further_layers(ModelFile& file) {
  const int64_t layers = folder_layers(file);
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    std::string_view name = without_prefix(tensor.name);
    const std::string_view list = layer_list(name);
    if (list.empty() || layers == 0) return false;
    name.remove_prefix(list.size());
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    return error == std::errc() && layer >= layers;
  });
}

// GPT-2 keeps (in, out); MLX turns them, which shows in the joint projection.
void transpose_conv1d(ModelFile& file) {
  const TensorView* joint = file.find("blk.0.attn_qkv.weight");
  if (joint == nullptr || joint->shape.size() != 2 || joint->shape[0] > joint->shape[1]) return;
  for (TensorView& tensor : file.tensors)
    for (const char* end :
         {"attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"})
      if (tensor.name.ends_with(end) && tensor.shape.size() == 2) tensor = transposed(tensor);
}

// The joint projection has q, k and v of a head together; ours has those of all heads.
void gather_heads(ModelFile& file) {
  const DecoderConfig c = read_config(file);
  std::vector<int64_t> order;
  for (int64_t part = 0; part < 3; ++part)
    for (int64_t head = 0; head < c.heads; ++head)
      for (int64_t i = 0; i < c.head_dim; ++i) order.push_back((head * 3 + part) * c.head_dim + i);
  for (TensorView& tensor : file.tensors)
    if (tensor.name.find(".attn_qkv.") != std::string::npos) tensor = reordered_rows(tensor, order);
}

// The part that all rows have is one matrix for gate and up; without experts it is the only one.
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

// What the folders of an architecture hold otherwise than definitions use it.
struct FolderStep {
  std::string_view architecture;
  void (*apply)(ModelFile&);
};
constexpr FolderStep kFolderSteps[] = {{"gemma", add_one_to_norms},  {"gemma2", add_one_to_norms},
                                       {"gemma3", add_one_to_norms}, {"deepseek2", split_latent},
                                       {"granitemoe", split_shared}, {"gpt2", transpose_conv1d},
                                       {"gptneox", gather_heads}};

// Norms of heads with a weight for each are matrices.
void flatten_norms(ModelFile& file) {
  for (TensorView& tensor : file.tensors)
    if (tensor.name.ends_with("_norm.weight") && tensor.shape.size() == 2 && !tensor.source)
      tensor.shape = {tensor.elements()};
}

// Names that GGUF has for some architectures only.
void rename_gguf(ModelFile& file) {
  const auto architecture = file.metadata.text("general.architecture");
  constexpr std::string_view kRenamed[] = {"gpt-oss", "glm4moe", "seed_oss"};
  if (!architecture || std::ranges::find(kRenamed, *architecture) == std::end(kRenamed)) return;
  constexpr std::string_view kTheirs = "post_attention_norm.weight";
  for (TensorView& tensor : file.tensors)
    if (tensor.name.ends_with(kTheirs))
      tensor.name.replace(tensor.name.size() - kTheirs.size(), kTheirs.size(), "ffn_norm.weight");
}

// Cuts `name` along its rows into parts of the given names and sizes.
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

bool is_joint(const TensorView& tensor) {
  return tensor.name.starts_with("blk.0.attn_qkv.") ||
         tensor.name.starts_with("blk.0.ffn_gate_up.");
}

// Some files have projections of the same input as one matrix.
void split_joint(ModelFile& file) {
  const bool phi = file.container == Container::kGguf &&
                   (file.metadata.text("general.architecture") == std::string("phi3") ||
                    file.metadata.text("general.architecture") == std::string("glm4"));
  if (!phi && std::ranges::none_of(file.tensors, is_joint)) return;
  const DecoderConfig c = read_config(file);
  const int64_t q = int64_t{c.heads} * c.head_dim;
  const int64_t kv = int64_t{c.kv_heads} * c.head_dim;
  for (int32_t layer = 0; layer < c.layers; ++layer)
    for (const char* kind : {".weight", ".bias"}) {
      const auto name = [&](const char* part) {
        return fmt::format("blk.{}.{}{}", layer, part, kind);
      };
      const std::pair<std::string, int64_t> qkv[] = {
          {name("attn_q"), q}, {name("attn_k"), kv}, {name("attn_v"), kv}};
      split(file, name("attn_qkv"), qkv);
      const std::pair<std::string, int64_t> ffn[] = {{name("ffn_gate"), c.hidden},
                                                     {name("ffn_up"), c.hidden}};
      const std::string joint = name("ffn_gate_up");
      split(file, joint, ffn);
      // GGUF calls both together "up".
      const TensorView* up = file.find(name("ffn_up"));
      if (phi && up != nullptr && up->shape[0] == 2 * c.hidden) split(file, name("ffn_up"), ffn);
    }
}

// How the model's makers want it sampled, under GGUF's keys.
void read_generation_config(const std::string& folder, Metadata& metadata) {
  const std::string path = folder + "/generation_config.json";
  std::error_code code;
  if (!fs::exists(path, code)) return;
  const Json config = read_json_file(path, size_t{1} << 20);
  constexpr NameRow kKeys[] = {{"temperature", "general.sampling.temp"},
                               {"top_p", "general.sampling.top_p"},
                               {"min_p", "general.sampling.min_p"},
                               {"repetition_penalty", "general.sampling.penalty_repeat"}};
  for (const auto& [theirs, ours] : kKeys) {
    const auto value = config.find(theirs);
    if (value != config.end() && value->is_number())
      metadata.set(std::string(ours), value->get<double>());
  }
  const auto top_k = config.find("top_k");
  if (top_k != config.end() && top_k->is_number_unsigned() && top_k->get<uint64_t>() <= INT32_MAX)
    metadata.set("general.sampling.top_k", top_k->get<int64_t>());
}

void name_folder(ModelFile& file, std::string_view architecture, const std::string& found) {
  std::error_code code;
  fs::path folder = fs::canonical(file.path, code);
  file.metadata.set("general.name", folder.filename().string());
  file.metadata.set("general.architecture",
                    architecture.empty() ? found : std::string(architecture));
}

}  // namespace

std::string our_name(std::string_view architecture, std::string_view full_name) {
  std::string with_end(without_prefix(full_name));
  for (const auto& [theirs, ours] : kEnds)
    if (with_end.ends_with(theirs))
      with_end.replace(with_end.size() - theirs.size(), theirs.size(), ours);
  std::string_view name = with_end;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view kind = name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return {};
  name = name.substr(0, dot);
  const std::string_view list = layer_list(name);
  if (list.empty()) {
    const std::string_view ours = look_up(kTop, name);
    return ours.empty() ? std::string() : fmt::format("{}{}", ours, kind);
  }
  name.remove_prefix(list.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<size_t>(end - name.data());
  if (error != std::errc() || digits >= name.size() || name[digits] != '.') return {};
  const std::string_view part = name.substr(digits + 1);
  std::string ours(layer_part(architecture, part));
  if (ours.empty()) ours = mixture_part(part);
  return ours.empty() ? std::string() : fmt::format("blk.{}.{}{}", layer, ours, kind);
}

ModelFile open_model(const std::string& path) {
  if (!is_folder(path)) {
    ModelFile file = open_gguf(path);
    rename_gguf(file);
    gather_experts(file, {});
    flatten_norms(file);
    split_joint(file);
    split_latent(file);
    return file;
  }
  ModelFile file = open_folder(path);
  std::string found;
  const std::string_view architecture = folder_architecture(file, found);
  name_folder(file, architecture, found);
  read_generation_config(path, file.metadata);
  if (architecture.empty()) return file;
  drop_further_layers(file);
  rename(file, architecture);
  gather_experts(file, architecture);
  flatten_norms(file);
  for (const FolderStep& step : kFolderSteps)
    if (step.architecture == architecture) step.apply(file);
  split_joint(file);
  add_rope_factors(file);
  return file;
}

}  // namespace veery
