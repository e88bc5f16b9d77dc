#include "import/names/folder_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "import/names/name_tables.h"
#include "import/names/whisper_names.h"

namespace veery {
namespace {

using namespace names;

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

// Returns the prefix of a layer tensor's name; empty for other tensors.
std::string_view layer_list(std::string_view name) {
  for (const std::string_view list : kLayerLists)
    if (name.starts_with(list)) return list;
  return {};
}

template <typename Table>
std::string_view look_up(const Table& table, std::string_view name) {
  for (const auto& row : table)
    if (row.theirs == name) return row.ours;
  return {};
}

// Returns a family's name for `ours`; empty if there is none.
std::string_view look_up_ours(std::span<const StyledRow> table, unsigned style,
                              std::string_view ours) {
  for (const StyledRow& row : table)
    if (row.ours == ours && (row.styles & style) != 0) return row.theirs;
  return {};
}

std::span<const NameRow> norms_of(std::string_view architecture) {
  constexpr std::string_view kBehind[] = {"gemma2",           "gemma3", "gemma4",
                                          "embedding-gemma2", "olmo2",  "exaone4"};
  if (architecture == "afmoe") return kMixtureNorms;
  if (std::ranges::find(kBehind, architecture) != std::end(kBehind)) return kSandwichNorms;
  return kPlainNorms;
}

std::string_view layer_part(std::string_view architecture, std::string_view part) {
  const std::string_view norm = look_up(norms_of(architecture), part);
  return norm.empty() ? look_up(kLayer, part) : norm;
}

// Converts the name of an expert part, "mlp.experts.3.gate_proj" to "ffn_gate.3"; empty for other
// names.
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

// Norms stored per head: "self_attn.q_layernorm.norms.3" is "attn_q_norm.3".
constexpr NameRow kHeadNorms[] = {{"self_attn.q_layernorm.norms.", "attn_q_norm."},
                                  {"self_attn.k_layernorm.norms.", "attn_k_norm."}};

std::string head_norm_part(std::string_view part) {
  for (const NameRow& row : kHeadNorms)
    if (part.starts_with(row.theirs))
      return fmt::format("{}{}", row.ours, part.substr(row.theirs.size()));
  return {};
}

std::string head_norm_name(std::string_view ours) {
  for (const NameRow& row : kHeadNorms)
    if (ours.starts_with(row.ours))
      return fmt::format("{}{}", row.theirs, ours.substr(row.ours.size()));
  return {};
}

// Model types whose names follow another style than llama's.
struct StyleRow {
  std::string_view type;
  unsigned styles;
};
constexpr StyleRow kStyles[] = {{"phi", kPhi},
                                {"gpt2", kGpt2},
                                {"gpt_neox", kNeox},
                                {"starcoder2", kStarcoder},
                                {"llama4_text", kLlama4 | kLlama},
                                {"exaone", kExaone},
                                {"hunyuan_v1_dense", kHunyuan | kLlama},
                                {"hunyuan_v1_moe", kHunyuan | kLlama},
                                {"apertus", kApertus | kLlama},
                                {"gptj", kGptj},
                                {"mamba2", kMamba},
                                {"nemotron_h", kMamba},
                                {"granitemoehybrid", kHybrid | kLlama},
                                {"bamba", kBamba | kHybrid},
                                {"jamba", kBamba | kHybrid},
                                {"bailing_moe", kBailing},
                                {"xlstm", kXlstm},
                                {"lfm3", kLfm3},
                                {"kimi_linear", kKimi | kKimiHf | kLlama},
                                {"rwkv7", kRwkv},
                                {"lfm2", kLfm},
                                {"lfm2_moe", kLfm},
                                {"qwen3_5_text", kNested | kLlama},
                                {"qwen3_5_moe_text", kNested | kLlama}};

unsigned style_of(const FolderType& type, FolderKind kind) {
  const auto row = std::ranges::find(kStyles, type.type, &StyleRow::type);
  const unsigned styles = row == std::end(kStyles) ? unsigned{kLlama} : row->styles;
  return kind == FolderKind::kMlx ? styles & ~unsigned{kKimiHf} : styles;
}

// Prefixes of tensor names: of the model, of its output head, and of its layer list.
struct Places {
  std::string_view model, head, layers;
};
Places places_of(unsigned style, FolderKind kind) {
  const bool mlx = kind == FolderKind::kMlx;
  if ((style & (kLlama4 | kNested)) != 0 && mlx)
    return {"language_model.model.", "language_model.", "layers."};
  if (style == kGpt2) return {mlx ? "model." : "transformer.", "", "h."};
  if (style == kMamba) return {"backbone.", "", "layers."};
  if (style == kXlstm) return {"backbone.", "", "blocks."};
  if (style == kExaone || style == kGptj) return {"transformer.", "", "h."};
  if (style != kNeox) return {"model.", "", "layers."};
  return mlx ? Places{"model.", "model.", "h."} : Places{"gpt_neox.", "", "layers."};
}

constexpr std::array<std::string_view, 3> kProjections = {"gate_proj", "up_proj", "down_proj"};
constexpr ExpertForm kApart = ExpertForm::kApart, kLinear = ExpertForm::kLinear;
constexpr std::array<std::string_view, 3> kMixtral = {"w1", "w3", "w2"};
constexpr MixtureNames kMixtureNames[] = {
    {"mixtral", "block_sparse_moe.", "gate", kMixtral, kApart, "", "switch_mlp."},
    {"qwen2_moe", "mlp.", "gate", kProjections, kApart, "shared_expert.", "switch_mlp."},
    {"qwen3_moe", "mlp.", "gate", kProjections, kApart, "", "switch_mlp."},
    {"olmoe", "mlp.", "gate", kProjections, kApart, "", "switch_mlp."},
    {"phimoe", "block_sparse_moe.", "gate", kMixtral, kApart, "", "switch_mlp."},
    {"hunyuan_v1_moe", "mlp.", "gate.wg", kProjections, kApart, "shared_mlp.", "switch_mlp."},
    {"dots1", "mlp.", "gate", kProjections, kApart, "shared_experts.", "experts."},
    {"bailing_moe", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp.",
     "gate.expert_bias", "gate.expert_bias", "gate.gate_proj"},
    {"glm4_moe", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"deepseek_v2", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"deepseek_v3", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"deepseek_v32", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"glm_moe_dsa", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"kimi_k2", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"gpt_oss", "mlp.", "router", kProjections, ExpertForm::kAlternating, "", "experts."},
    {"llama4_text", "feed_forward.", "router", kProjections, ExpertForm::kTransposed,
     "shared_expert.", "experts."},
    {"gemma4_text", "", "router.proj", kProjections, ExpertForm::kJoint, "", "experts.switch_glu."},
    {"granitemoe", "block_sparse_moe.", "router.layer", kProjections, kLinear, "", "switch_mlp."},
    {"granitemoeshared", "block_sparse_moe.", "router.layer", kProjections, kLinear, "",
     "switch_mlp."},
    {"granitemoehybrid", "block_sparse_moe.", "router.layer", kProjections, kLinear, "",
     "switch_mlp."},
    {"glm4_moe_lite", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"mistral4", "mlp.", "gate", kProjections, ExpertForm::kJoint, "shared_experts.",
     "switch_mlp."},
    {"minimax_m2", "block_sparse_moe.", "gate", kMixtral, kApart, "", "switch_mlp.",
     "e_score_correction_bias"},
    {"exaone_moe", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp.",
     "e_score_correction_bias", "gate.e_score_correction_bias"},
    {"afmoe", "mlp.", "router.gate", kProjections, kApart, "shared_experts.", "experts.",
     "expert_bias"},
    {"cohere2_moe", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"lfm2_moe", "feed_forward.", "gate", kMixtral, kApart, "", "switch_mlp.", "expert_bias"},
    {"kimi_linear", "block_sparse_moe.", "gate", kMixtral, kApart, "shared_experts.", "switch_mlp.",
     "gate.e_score_correction_bias", "e_score_correction_bias"},
    {"jamba", "feed_forward.", "router", kProjections, kApart, "", "switch_mlp."},
    {"nemotron_h", "mixer.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp.",
     "gate.e_score_correction_bias", "gate.e_score_correction_bias"},
    {"qwen3_next", "mlp.", "gate", kProjections, kApart, "shared_expert.", "switch_mlp."},
    {"qwen3_5_moe_text", "mlp.", "gate", kProjections, kApart, "shared_expert.", "switch_mlp."}};

// Converts "ffn_gate.3" to "mlp.experts.3.gate_proj"; empty if it is not part of a mixture.
std::string mixture_name(const MixtureNames& names, FolderKind kind, std::string_view ours) {
  constexpr std::string_view kOurs[] = {"ffn_gate", "ffn_up", "ffn_down"};
  const bool mlx = kind == FolderKind::kMlx, kimi = names.type == "kimi_linear";
  const bool linear = names.form == ExpertForm::kLinear && !mlx;
  const std::string_view prefix = mlx && kimi ? "mlp." : names.prefix;
  if (ours == "ffn_gate_inp")
    return fmt::format("{}{}", prefix, mlx ? names.mlx_router : names.router);
  if (ours == "ffn_gate_up_exps")
    return fmt::format("{}{}", prefix, linear ? "input_linear" : "experts.gate_up_proj");
  if (ours == "ffn_down_exps" && linear) return fmt::format("{}output_linear", prefix);
  if (ours == "ffn_down_exps" && names.form == ExpertForm::kJoint && !mlx)
    return fmt::format("{}experts.down_proj", prefix);
  for (size_t i = 0; i < std::size(kOurs); ++i) {
    if (!ours.starts_with(kOurs[i])) continue;
    const std::string_view rest = ours.substr(kOurs[i].size());
    // These names also apply to layers without experts.
    if (rest.empty() && (kimi || (mlx && names.type == "lfm2_moe")))
      return fmt::format("{}{}", prefix, kProjections[i]);
    if (rest == "_shexp" && !names.shared.empty())
      return fmt::format("{}{}{}", prefix, names.shared, kProjections[i]);
    if (rest == "_exps") return fmt::format("{}{}{}", prefix, names.mlx_stack, kProjections[i]);
    if (rest.starts_with('.')) return fmt::format("{}experts{}.{}", prefix, rest, names.experts[i]);
  }
  if (ours == "ffn_gate_inp_shexp") return fmt::format("{}shared_expert_gate", prefix);
  if (ours == "exp_probs_b") return fmt::format("{}exp_probs_b", prefix);
  return {};
}

std::string layer_name(const FolderType& type, unsigned style, FolderKind kind,
                       std::string_view ours) {
  const MixtureNames* mixture = mixture_names(type);
  if (mixture != nullptr)
    if (std::string name = mixture_name(*mixture, kind, ours); !name.empty()) return name;
  if (ours.starts_with("attn_") && ours.find("_norm.") != std::string_view::npos)
    return head_norm_name(ours);
  constexpr unsigned kOtherNorms =
      kGpt2 | kExaone | kLfm | kLfm3 | kApertus | kBamba | kXlstm | kRwkv;
  if ((style & kOtherNorms) == 0)
    for (const NameRow& row : norms_of(type.architecture))
      if (row.ours == ours) return std::string(row.theirs);
  return std::string(look_up_ours(kLayer, style, ours));
}

}  // namespace

std::string our_name(std::string_view architecture, std::string_view full_name) {
  if (architecture == "whisper") return whisper_name(full_name);
  std::string with_end(without_prefix(full_name));
  for (const auto& [theirs, ours, mlx] : kEnds)
    if (with_end.ends_with(theirs))
      with_end.replace(with_end.size() - theirs.size(), theirs.size(), ours);
  std::string_view name = with_end;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view kind = name.substr(dot);
  const bool scales =
      name.ends_with("router.proj.scale") || name.ends_with("experts.down_proj.scale");
  if (kind != ".weight" && kind != ".bias" && !scales) return {};
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
  if (ours.empty()) ours = head_norm_part(part);
  return ours.empty() ? std::string() : fmt::format("blk.{}.{}{}", layer, ours, kind);
}

std::string folder_name(const FolderType& type, FolderKind kind, std::string_view ours) {
  const unsigned style = style_of(type, kind);
  const Places places = places_of(style, kind);
  const size_t end = ours.rfind('.');
  if (end == std::string_view::npos) return {};
  const std::string_view ending = ours.substr(end);
  std::string_view part = ours.substr(0, end);
  if (!part.starts_with("blk.")) {
    const std::string_view theirs = look_up_ours(kTop, style, part);
    if (theirs.empty()) return {};
    return fmt::format("{}{}{}", part == "output" ? places.head : places.model, theirs, ending);
  }
  part.remove_prefix(4);
  const size_t dot = std::min(part.find('.'), part.size());
  const std::string_view layer = part.substr(0, dot);
  const std::string theirs =
      layer_name(type, style, kind, part.substr(std::min(dot + 1, part.size())));
  if (theirs.empty()) return {};
  std::string name = fmt::format("{}{}{}.{}{}", places.model, places.layers, layer, theirs, ending);
  constexpr std::string_view kBias = "exp_probs_b.bias";
  if (const MixtureNames* mixture = mixture_names(type); mixture && name.ends_with(kBias))
    return name.replace(name.size() - kBias.size(), kBias.size(),
                        kind == FolderKind::kMlx ? mixture->mlx_bias : mixture->bias);
  for (const EndRow& row : kEnds)
    if ((row.mlx || kind == FolderKind::kHuggingFace) &&
        name.ends_with(fmt::format(".{}", row.ours)))
      return name.replace(name.size() - row.ours.size(), row.ours.size(), row.theirs);
  return name;
}

int64_t named_layer(std::string_view name) {
  name = without_prefix(name);
  const std::string_view list = layer_list(name);
  if (list.empty()) return -1;
  name.remove_prefix(list.size());
  int64_t layer = 0;
  std::from_chars(name.data(), name.data() + name.size(), layer);
  return std::max<int64_t>(layer, 0);
}

bool is_auxiliary_tensor(std::string_view name) {
  return std::ranges::any_of(kNoWeights, [&](std::string_view end) { return name.ends_with(end); });
}

const MixtureNames* mixture_names(const FolderType& type) {
  const auto row = std::ranges::find(kMixtureNames, type.type, &MixtureNames::type);
  return row == std::end(kMixtureNames) ? nullptr : row;
}

}  // namespace veery
