#include "convert/quant_mix.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/regex.h"

namespace veery {
namespace {

using enum DType;

// Conditions of a rule beyond the tensor's part; all that are set must hold.
enum Condition : uint32_t {
  kFirst2 = 1U << 0,  // the first 2 tensors of the part
  kFirst4 = 1U << 1,
  kFirst16th = 1U << 2,  // the first 16th of the layers
  kFirst8th = 1U << 3,
  kMiddle = 1U << 4,     // neither in the first nor in the last eighth
  kMore = 1U << 5,       // in the first or last eighth, or every third in between
  kShared = 1U << 6,     // a key head serves 4 or more query heads
  kSharedOr4 = 1U << 7,  // the same, or there are 4 or more experts
  kEight = 1U << 8,      // exactly 8 experts
  kNotEight = 1U << 9,
  kBlind = 1U << 10,  // without importance matrix
  kInformed = 1U << 11,
  kSeventy = 1U << 12,  // 80 layers with shared key heads
  kExperts = 1U << 13,  // the tensor holds several experts
};

enum class Part { kEmbedding, kHead, kQ, kK, kV, kQkv, kOutput, kGate, kUp, kDown, kOther };

struct PartRow {
  std::string_view name;
  Part part;
};
constexpr PartRow kParts[] = {
    {"attn_qkv.weight", Part::kQkv}, {"attn_kv_b.weight", Part::kV},
    {"attn_v.weight", Part::kV},     {"attn_k.weight", Part::kK},
    {"attn_q.weight", Part::kQ},     {"attn_output.weight", Part::kOutput},
    {"ffn_up", Part::kUp},           {"ffn_gate", Part::kGate},
    {"ffn_down", Part::kDown}};

// Tensors that are never quantised: small ones with a large effect.
constexpr std::string_view kKept[] = {"_norm.weight",         "ffn_gate_inp", "position_embd",
                                      "token_types",          "ssm_conv1d",   "shortconv.conv",
                                      "cell_conv1d",          ".heads_",      ".slstm_",
                                      "attn_rel_b",           "altup",        "laurel",
                                      "per_layer_model_proj", ".patch_embd",  "indexer.proj"};

const std::vector<QuantMix> kQuantMixes = {
    {"F32", kF32, 0, "32 bits"},
    {"F16", kF16, 1, "16 bits, IEEE half"},
    {"BF16", kBF16, 32, "16 bits, the range of f32"},
    {"Q8_0", kQ8_0, 7, "8.5 bits"},
    {"Q6_K", kQ6_K, 18, "6.6 bits"},
    {"Q5_K_M", kQ5_K, 17, "5.7 bits, half of attn_v and ffn_down in Q6_K"},
    {"Q5_K_S", kQ5_K, 16, "5.5 bits"},
    {"Q5_1", kQ5_1, 9, "6 bits"},
    {"Q5_0", kQ5_0, 8, "5.5 bits"},
    {"Q4_K_M", kQ4_K, 15, "4.8 bits, half of attn_v and ffn_down in Q6_K"},
    {"Q4_K_S", kQ4_K, 14, "4.6 bits, first attn_v and ffn_down in Q5_K"},
    {"Q4_1", kQ4_1, 3, "5 bits"},
    {"Q4_0", kQ4_0, 2, "4.5 bits"},
    {"IQ4_NL", kIQ4_NL, 25, "4.5 bits, code book"},
    {"IQ4_XS", kIQ4_XS, 30, "4.25 bits, code book"},
    {"Q3_K_L", kQ3_K, 13, "3.4 bits, attn_v, ffn_down, attn_output in Q5_K"},
    {"Q3_K_M", kQ3_K, 12, "3.4 bits, attn_v, ffn_down, attn_output in Q4_K"},
    {"Q3_K_S", kQ3_K, 11, "3.4 bits"},
    {"IQ3_M", kIQ3_S, 27, "3.4 bits, attn_v and attn_output in Q4_K"},
    {"IQ3_S", kIQ3_S, 26, "3.4 bits, grid code book"},
    {"IQ3_XS", kIQ3_S, 22, "3.4 bits, attn_q and attn_k in IQ3_XXS"},
    {"IQ3_XXS", kIQ3_XXS, 23, "3.1 bits, grid code book"},
    {"Q2_K", kQ2_K, 10, "2.6 bits, attn_v, ffn_down, attn_output in Q3_K"},
    {"Q2_K_S", kQ2_K, 21, "2.6 bits"},
    {"IQ2_M", kIQ2_S, 29, "2.5 bits, attn_v and attn_output in IQ3_S"},
    {"IQ2_S", kIQ2_XS, 28, "2.3 bits, attn_v and attn_output in IQ3_S"},
    {"IQ2_XS", kIQ2_XS, 20, "2.3 bits"},
    {"IQ2_XXS", kIQ2_XXS, 19, "2.1 bits"},
    {"IQ1_M", kIQ1_M, 31, "1.75 bits"},
    {"IQ1_S", kIQ1_S, 24, "1.6 bits"},
    {"Q2_0", kQ2_0, 41, "2.25 bits, -1, 0, 1 and 2"},
    {"TQ2_0", kTQ2_0, 37, "2.1 bits, -1, 0 and 1"},
    {"TQ1_0", kTQ1_0, 36, "1.7 bits, -1, 0 and 1"},
    {"MXFP4", kMXFP4, 38, "4.25 bits, 4-bit floats"},
    {"MXFP4_MOE", kQ8_0, 38, "experts in MXFP4, the rest in Q8_0"},
    {"NVFP4", kNVFP4, 39, "4.5 bits, 4-bit floats"},
};

struct Rule {
  std::string_view mixes;  // names, each between spaces
  Part part;
  uint32_t conditions;
  DType type;
};
// Deviations of the established mixes from their main type; the first matching row wins.
constexpr std::string_view kLow = " IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M ";
constexpr std::string_view kLowest = " IQ1_S IQ1_M IQ2_XXS IQ2_XS ";
constexpr std::string_view kIq2Large = " IQ2_S IQ2_M ";
constexpr std::string_view kOutputOfEight =
    " Q2_K IQ3_XS IQ3_XXS Q3_K_S Q3_K_M IQ4_NL Q4_K_S Q4_K_M IQ3_S IQ3_M IQ4_XS ";
constexpr std::string_view kFourBits = " IQ4_NL IQ4_XS ";
constexpr std::string_view kAnyOther = "";  // any mix without a row above for this part

constexpr Rule kRules[] = {
    {" MXFP4_MOE ", Part::kHead, 0, kQ8_0},
    {kLow, Part::kHead, 0, kQ5_K},
    {" IQ3_XXS ", Part::kHead, 0, kQ5_K},
    {" Q8_0 ", Part::kHead, 0, kQ8_0},
    {kAnyOther, Part::kHead, 0, kQ6_K},

    {" MXFP4_MOE ", Part::kGate, kExperts, kMXFP4},
    {" MXFP4_MOE ", Part::kUp, kExperts, kMXFP4},
    {" MXFP4_MOE ", Part::kDown, kExperts, kMXFP4},

    {kLowest, Part::kEmbedding, 0, kQ2_K},
    {kIq2Large, Part::kEmbedding, 0, kIQ3_S},
    {" IQ3_XXS ", Part::kEmbedding, 0, kIQ3_S},
    {" TQ1_0 TQ2_0 Q2_0 ", Part::kEmbedding, 0, kQ4_K},

    {kLow, Part::kV, kSharedOr4, kQ4_K},
    {kIq2Large, Part::kV, 0, kIQ3_S},
    {kLowest, Part::kV, 0, kQ2_K},
    {" MXFP4_MOE ", Part::kV, 0, kQ8_0},
    {kAnyOther, Part::kV, kEight, kQ8_0},
    {" Q2_K ", Part::kV, kShared | kSeventy, kQ5_K},
    {" Q2_K Q2_K_S ", Part::kV, kShared, kQ4_K},
    {" Q2_K ", Part::kV, 0, kQ3_K},
    {" IQ3_XXS IQ3_XS IQ3_S IQ3_M ", Part::kV, kShared | kSeventy, kQ5_K},
    {" IQ3_XXS IQ3_XS IQ3_S ", Part::kV, kShared, kQ4_K},
    {" IQ3_XXS ", Part::kV, kBlind, kIQ3_S},
    {" IQ3_M ", Part::kV, 0, kQ4_K},
    {" Q3_K_M ", Part::kV, kFirst2, kQ5_K},
    {" Q3_K_L ", Part::kV, 0, kQ5_K},
    {" Q3_K_S Q3_K_M ", Part::kV, kSeventy, kQ5_K},
    {" Q3_K_M ", Part::kV, 0, kQ4_K},
    {kFourBits, Part::kV, kShared, kQ5_K},
    {" Q4_K_M Q5_K_M ", Part::kV, kMore, kQ6_K},
    {" Q4_K_S ", Part::kV, kFirst4, kQ5_K},
    {" Q4_K_S Q4_K_M ", Part::kV, kSeventy, kQ5_K},

    {kLow, Part::kK, kEight, kQ4_K},
    {kAnyOther, Part::kK, kEight, kQ8_0},
    {" IQ3_XS ", Part::kK, 0, kIQ3_XXS},
    {" IQ3_XXS ", Part::kK, 0, kIQ2_S},
    {" IQ3_XS ", Part::kQ, 0, kIQ3_XXS},
    {" IQ3_XXS ", Part::kQ, 0, kIQ2_S},

    {kIq2Large, Part::kDown, kFirst8th, kIQ3_S},
    {kLowest, Part::kDown, kFirst8th, kQ2_K},
    {" Q2_K ", Part::kDown, 0, kQ3_K},
    {" Q2_K_S ", Part::kDown, kFirst8th, kQ4_K},
    {" IQ3_XXS ", Part::kDown, kBlind | kFirst8th, kQ4_K},
    {" IQ3_XXS ", Part::kDown, kBlind, kQ3_K},
    {" Q3_K_M ", Part::kDown, kFirst16th, kQ5_K},
    {" Q3_K_M ", Part::kDown, 0, kQ4_K},
    {" IQ3_M ", Part::kDown, kFirst8th, kQ4_K},
    {" IQ3_M ", Part::kDown, kEight | kMore, kQ4_K},
    {" Q3_K_L ", Part::kDown, 0, kQ5_K},
    {" Q4_K_M Q5_K_M ", Part::kDown, kMore, kQ6_K},
    {kFourBits, Part::kDown, kFirst8th | kBlind, kQ5_K},
    {" Q4_K_S ", Part::kDown, kFirst8th, kQ5_K},
    {" Q4_0 ", Part::kDown, kFirst8th | kInformed, kQ4_1},
    {" Q5_0 ", Part::kDown, kFirst8th | kInformed, kQ5_1},

    {kLow, Part::kOutput, kEight, kQ5_K},
    {kOutputOfEight, Part::kOutput, kEight, kQ5_K},
    {" IQ1_S IQ1_M ", Part::kOutput, kNotEight, kIQ2_XXS},
    {kIq2Large, Part::kOutput, kNotEight, kIQ3_S},
    {" Q2_K ", Part::kOutput, kNotEight, kQ3_K},
    {" IQ3_XXS ", Part::kOutput, kNotEight, kIQ3_S},
    {" Q3_K_M IQ3_M ", Part::kOutput, kNotEight, kQ4_K},
    {" Q3_K_L ", Part::kOutput, kNotEight, kQ5_K},

    {" IQ3_XS ", Part::kGate, kMiddle, kIQ3_XXS},
    {" IQ3_XS ", Part::kUp, kMiddle, kIQ3_XXS},
};

// Joint projections contain values, so they follow the rules for values.
constexpr Part part_for_rules(Part part) { return part == Part::kQkv ? Part::kV : part; }

// Replacements for rows that do not fit blocks of 256.
struct Smaller {
  DType from, to;
};
constexpr Smaller kSmaller[] = {{kIQ1_S, kIQ4_NL},  {kIQ1_M, kIQ4_NL},  {kIQ2_XXS, kIQ4_NL},
                                {kIQ2_XS, kIQ4_NL}, {kIQ2_S, kIQ4_NL},  {kIQ3_XXS, kIQ4_NL},
                                {kIQ3_S, kIQ4_NL},  {kIQ4_XS, kIQ4_NL}, {kQ2_K, kQ4_0},
                                {kQ3_K, kQ4_0},     {kTQ1_0, kQ4_0},    {kTQ2_0, kQ4_0},
                                {kQ4_K, kQ5_0},     {kQ5_K, kQ5_1},     {kQ6_K, kQ8_0},
                                {kNVFP4, kMXFP4},   {kQ2_0, kQ4_0}};

bool fits(const TensorView& tensor, DType type) {
  return tensor.shape.back() % info(type).block == 0;
}

bool is_quantizable(const TensorView& tensor) {
  return tensor.shape.size() >= 2 && tensor.name.ends_with("weight") &&
         info(tensor.dtype).decodable && std::ranges::none_of(kKept, [&](std::string_view part) {
           return tensor.name.find(part) != std::string::npos;
         });
}

int64_t layer_of(std::string_view name) {
  int64_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

struct Facts {
  int64_t layers = 1, experts = 0, shared = 1;  // query heads per key head
  bool tied = true;
};

// Returns the first number if layers differ.
int64_t first_number(const Metadata& metadata, const std::string& key, int64_t fallback) {
  const MetaValue* value = metadata.find(key);
  if (value == nullptr) return fallback;
  if (const auto* list = std::get_if<std::vector<int64_t>>(value))
    return list->empty() ? fallback : list->front();
  return metadata.integer(key).value_or(fallback);
}

Facts facts_of(const ModelFile& file) {
  const std::string prefix = file.metadata.text("general.architecture").value_or("") + ".";
  Facts facts;
  facts.layers = std::max<int64_t>(1, first_number(file.metadata, prefix + "block_count", 1));
  facts.experts = first_number(file.metadata, prefix + "expert_count", 0);
  const int64_t heads = first_number(file.metadata, prefix + "attention.head_count", 1);
  const int64_t kv = first_number(file.metadata, prefix + "attention.head_count_kv", heads);
  facts.shared = kv > 0 ? heads / kv : 1;
  facts.tied = file.find("output.weight") == nullptr;
  return facts;
}

Part part_of(const TensorView& tensor, const Facts& facts) {
  if (tensor.name == "output.weight") return Part::kHead;
  if (tensor.name == "token_embd.weight") return facts.tied ? Part::kHead : Part::kEmbedding;
  if (tensor.name == "per_layer_token_embd.weight") return Part::kEmbedding;
  const auto row = std::ranges::find_if(kParts, [&](const PartRow& part) {
    return tensor.name.find(part.name) != std::string::npos;
  });
  return row == std::end(kParts) ? Part::kOther : row->part;
}

uint32_t conditions_of(const TensorView& tensor, const Facts& facts, int64_t ordinal,
                       bool importance) {
  const int64_t n = facts.layers;
  const int64_t layer = layer_of(tensor.name);
  uint32_t found = 0;
  const auto set = [&](bool holds, uint32_t condition) { found |= holds ? condition : 0; };
  set(ordinal < 2, kFirst2);
  set(ordinal < 4, kFirst4);
  set(layer < n / 16, kFirst16th);
  set(layer < n / 8, kFirst8th);
  set(layer >= n / 8 && layer < 7 * n / 8, kMiddle);
  set(layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2, kMore);
  set(facts.shared >= 4, kShared);
  set(facts.shared >= 4 || facts.experts >= 4, kSharedOr4);
  set(facts.experts == 8, kEight);
  set(facts.experts != 8, kNotEight);
  set(!importance, kBlind);
  set(importance, kInformed);
  set(n == 80 && facts.shared > 1, kSeventy);
  set(tensor.shape.size() > 2 && tensor.shape[0] > 1, kExperts);
  return found;
}

DType mixed_type(const QuantMix& mix, Part part, uint32_t conditions) {
  const std::string name = fmt::format(" {} ", mix.name);
  const auto row = std::ranges::find_if(kRules, [&](const Rule& rule) {
    return rule.part == part && (rule.conditions & ~conditions) == 0 &&
           (rule.mixes.empty() || rule.mixes.find(name) != std::string_view::npos);
  });
  return row == std::end(kRules) ? mix.type : row->type;
}

DType kept_type(const TensorView& tensor) {
  return tensor.dtype == kF16 || tensor.dtype == kBF16 ? kF32 : tensor.dtype;
}

TensorPlan fitting(const TensorView& tensor, DType type) {
  if (fits(tensor, type)) return {type};
  const auto row = std::ranges::find(kSmaller, type, &Smaller::from);
  if (row != std::end(kSmaller) && fits(tensor, row->to)) return {row->to, type};
  return {kF16, type};
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

}  // namespace

const std::vector<QuantMix>& quant_mixes() { return kQuantMixes; }

const QuantMix& find_quant_mix(std::string_view name) {
  std::string wanted = upper(name);
  if (wanted == "Q3_K" || wanted == "Q4_K" || wanted == "Q5_K") wanted += "_M";
  const auto row = std::ranges::find(kQuantMixes, wanted, &QuantMix::name);
  if (row != kQuantMixes.end()) return *row;
  std::string known;
  for (const QuantMix& mix : kQuantMixes)
    known += (known.empty() ? "" : ", ") + std::string(mix.name);
  throw Error(ErrorKind::kInput, "unknown quantisation type '{}', expected one of {}",
              printable(name), known);
}

const QuantMix* find_quant_mix(DType type) {
  const auto row = std::ranges::find(kQuantMixes, type, &QuantMix::type);
  return row == kQuantMixes.end() ? nullptr : &*row;
}

std::vector<TensorPlan> keep_types(const ModelFile& file) {
  std::vector<TensorPlan> plans;
  for (const TensorView& tensor : file.tensors)
    plans.push_back({is_quantizable(tensor) ? tensor.dtype : kept_type(tensor)});
  return plans;
}

std::vector<TensorPlan> plan_types(const ModelFile& file, const QuantMix& mix,
                                   const QuantMixOptions& options) {
  std::vector<Regex> patterns;
  for (const TensorRule& rule : options.rules) patterns.emplace_back(rule.pattern);
  RegexScratch scratch;
  Regex::Match match;
  const Facts facts = facts_of(file);
  std::map<Part, std::vector<std::pair<int64_t, std::string_view>>> order;
  for (const TensorView& tensor : file.tensors)
    order[part_of(tensor, facts)].emplace_back(layer_of(tensor.name), tensor.name);
  for (auto& [part, names] : order) std::ranges::sort(names);

  std::vector<TensorPlan> plans;
  for (const TensorView& tensor : file.tensors) {
    if (!is_quantizable(tensor)) {
      plans.push_back({kept_type(tensor)});
      continue;
    }
    const Part part = part_of(tensor, facts);
    const auto& names = order[part];
    const auto place = std::ranges::lower_bound(
        names, std::pair<int64_t, std::string_view>(layer_of(tensor.name), tensor.name));
    const uint32_t conditions =
        conditions_of(tensor, facts, place - names.begin(), options.importance);
    const auto matches = [&](size_t i) { return patterns[i].find(tensor.name, 0, scratch, match); };
    size_t rule = 0;
    while (rule < patterns.size() && !matches(rule)) ++rule;
    const bool head = tensor.name == "output.weight";
    const bool embedding = tensor.name.ends_with("token_embd.weight");
    DType type = mix.type;
    if (rule < patterns.size())
      type = options.rules[rule].type;
    else if (embedding && options.embedding)
      type = *options.embedding;
    else if ((head || part == Part::kHead) && options.output)
      type = *options.output;
    else if (info(mix.type).quantized && !options.pure)
      type = part == Part::kHead && !fits(tensor, mix.type)
                 ? kQ8_0
                 : mixed_type(mix, part_for_rules(part), conditions);
    if (!info(type).encodable)
      throw Error(ErrorKind::kUnsupported, "{}: {} is not a type that floats are encoded to",
                  printable(tensor.name), info(type).name);
    plans.push_back(fitting(tensor, type));
  }
  return plans;
}

}  // namespace veery
