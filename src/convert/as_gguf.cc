#include "convert/as_gguf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/error.h"
#include "convert/carried_metadata.h"
#include "convert/gguf_keys.h"
#include "convert/recurrent_names.h"
#include "file/folder/find_model.h"
#include "file/folder/folder.h"
#include "file/folder/row_sources.h"
#include "file/gguf/gguf.h"
#include "import/config_keys.h"
#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "model/arch/entry.h"
#include "model/arch/registry.h"
#include "text/format/gguf_tokenizer.h"

namespace veery {
namespace {

// Prefixes of GGUF tensor names, in the order of tensors in the file.
constexpr std::string_view kBegins[] = {
    "token_embd.", "token_embd_norm.", "position_embd.", "enc.", "token_types.",
    "per_layer_",  "rope_freqs.",      "rope_factors_",  "blk.", "output_norm.",
    "output.",     "dense_2.",         "dense_3.",       "cls."};

size_t place_of(const TensorView& tensor) {
  const auto found = std::ranges::find_if(
      kBegins, [&](std::string_view begin) { return tensor.name.starts_with(begin); });
  return static_cast<size_t>(found - std::begin(kBegins));
}

int64_t layer_of(std::string_view name) {
  int64_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// Drops tensors outside the text model: parts of other models (vision), masks, poolers without a
// score head, and activation parameters, which become keys.
void drop_other_parts(ModelFile& file) {
  const bool scores = file.find("cls.output.weight") != nullptr;
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    return place_of(tensor) == std::size(kBegins) ||
           tensor.name.find(".xielu_") != std::string::npos ||
           (!scores && tensor.name.starts_with("cls."));
  });
}

void in_order(ModelFile& file) {
  std::ranges::stable_sort(file.tensors, {}, [](const TensorView& tensor) {
    return std::tuple(place_of(tensor), layer_of(tensor.name));
  });
}

// Architectures for which llama.cpp requires a separate output head.
constexpr std::string_view kOwnHead[] = {"phi2",    "gptneox",  "olmo2",      "qwen2moe",
                                         "gpt-oss", "stablelm", "internlm2",  "nemotron",
                                         "apertus", "phimoe",   "bailingmoe2"};

void write_head(ModelFile& file, const TransformerConfig& c) {
  if (!c.output.tied) return;
  std::erase_if(file.tensors,
                [](const TensorView& tensor) { return tensor.name == "output.weight"; });
  if (std::ranges::find(kOwnHead, c.architecture) == std::end(kOwnHead)) return;
  TensorView head = file.at("token_embd.weight");
  head.name = "output.weight";
  file.tensors.push_back(std::move(head));
}

void pair_rows(ModelFile& file, const TransformerConfig& c) {
  const Architecture& written = find_architecture(gguf_architecture(c.architecture));
  if (!written.gguf_interleaved_rope || c.positions.interleaved) return;
  if (c.latent.rank > 0)
    throw Error(ErrorKind::kUnsupported, "{}: GGUF supports {} with interleaved RoPE pairs only",
                file.path, c.architecture);
  for (TensorView& tensor : file.tensors)
    for (const char* part : {".attn_q.", ".attn_k."})
      if (tensor.name.find(part) != std::string::npos)
        tensor = paired_rows(tensor, c.attention.head_dim, c.positions.rope.dims);
}

// Projections that files of an architecture store as one matrix.
struct JointRow {
  std::string_view architecture, joint;
  std::array<std::string_view, 3> parts;
};
constexpr JointRow kJoint[] = {
    {"gpt2", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"gptneox", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"phi3", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"bailingmoe2", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"falcon", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"bloom", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"mpt", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"modern-bert", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"modern-bert", "ffn_up", {"ffn_gate", "ffn_up", ""}},
    {"jina-bert-v2", "ffn_up", {"ffn_gate", "ffn_up", ""}},
    {"phi3", "ffn_up", {"ffn_gate", "ffn_up", ""}},
    {"glm4", "ffn_up", {"ffn_gate", "ffn_up", ""}},
    {"granite_swa", "ffn_up_shexp", {"ffn_gate_shexp", "ffn_up_shexp", ""}},
    {"chatglm", "ffn_up", {"ffn_gate", "ffn_up", ""}}};

void join(ModelFile& file, const std::string& layer, const JointRow& row, const char* kind) {
  std::vector<TensorView> parts;
  for (const std::string_view part : row.parts) {
    const std::string name = fmt::format("{}{}{}", layer, part, kind);
    const auto found = std::ranges::find(file.tensors, name, &TensorView::name);
    if (part.empty() || found == file.tensors.end()) continue;
    parts.push_back(std::move(*found));
    file.tensors.erase(found);
  }
  if (!parts.empty())
    file.tensors.push_back(
        join_rows(std::move(parts), fmt::format("{}{}{}", layer, row.joint, kind)));
}

void join_projections(ModelFile& file, const TransformerConfig& c) {
  for (const JointRow& row : kJoint)
    for (int32_t layer = 0; row.architecture == c.architecture && layer < c.layers; ++layer)
      for (const char* kind : {".weight", ".bias"})
        join(file, fmt::format("blk.{}.", layer), row, kind);
}

// Tensor names that differ in GGUF for some architectures.
struct RenameRow {
  std::string_view architecture, from, to;
};
constexpr RenameRow kRenamed[] = {{"falcon-h1", ".ffn_norm.weight", ".ffn_norm"},
                                  {"gpt-oss", ".ffn_norm.", ".post_attention_norm."},
                                  {"glm4moe", ".ffn_norm.", ".post_attention_norm."},
                                  {"seed_oss", ".ffn_norm.", ".post_attention_norm."},
                                  {"qwen3next", ".ffn_norm.", ".post_attention_norm."},
                                  {"qwen35", ".ffn_norm.", ".post_attention_norm."},
                                  {"qwen35moe", ".ffn_norm.", ".post_attention_norm."}};

void rename(ModelFile& file, std::string_view from, std::string_view to) {
  for (TensorView& tensor : file.tensors)
    if (const size_t at = tensor.name.find(from); at != std::string::npos)
      tensor.name.replace(at, from.size(), to);
}

// Per-head norms become matrices.
void shape_head_norms(ModelFile& file, const TransformerConfig& c) {
  for (TensorView& tensor : file.tensors)
    for (const auto& [end, heads] : {std::pair(".attn_q_norm.weight", c.attention.heads),
                                     std::pair(".attn_k_norm.weight", c.attention.kv_heads)})
      if (tensor.name.ends_with(end) && tensor.elements() == int64_t{heads} * c.attention.head_dim)
        tensor = reshaped(tensor, {heads, c.attention.head_dim});
}

void add_divisors(ModelFile& file, const TransformerConfig& c) {
  const std::vector<float> divisors = llama3_divisors(c.positions.rope);
  if (divisors.empty()) return;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(divisors));
  TensorView tensor{"rope_freqs.weight", DType::kF32, {std::ssize(divisors)}, {}};
  tensor.source = make_bytes({bytes.begin(), bytes.end()}, bytes.size());
  file.tensors.push_back(std::move(tensor));
}

// Adds the dense layers after pooling, with the names and keys of EmbeddingGemma.
void add_dense(ModelFile& file, const SentenceSetup& setup, const std::string& prefix,
               Metadata& metadata) {
  const std::vector<SentenceDense>& layers = setup.files.dense;
  const bool known = layers.size() <= 2 && std::ranges::all_of(layers, [](const SentenceDense& d) {
                       return d.activation == DenseActivation::kIdentity && !d.bias;
                     });
  if (!known)
    throw Error(ErrorKind::kUnsupported,
                "{}: GGUF supports up to two dense layers without bias and activation, found {}",
                file.path, layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = fmt::format("dense_{}", i + 2);
    for (TensorView& tensor : file.tensors)
      if (tensor.name == fmt::format("dense.{}.weight", i)) tensor.name = name + ".weight";
    metadata.set(fmt::format("{}{}_feat_in", prefix, name), layers[i].in);
    metadata.set(fmt::format("{}{}_feat_out", prefix, name), layers[i].out);
  }
  file.mappings.insert(file.mappings.end(), setup.files.mappings.begin(),
                       setup.files.mappings.end());
}

// Adds the pooling and scoring settings with llama.cpp's keys and names. GGUF has no keys for the
// maximum text length and for prompts.
void add_sentence_keys(ModelFile& file, const TransformerConfig& c, Metadata& metadata) {
  const bool encoder = c.attention.mask != Mask::kCausal;
  if (c.source.layers > 0) return;
  const bool scores = makes_scores(file, c);
  const SentenceSetup setup = read_sentence_setup(file, c);
  if (!encoder && !scores && !setup.files.given) return;
  const std::string prefix = metadata.text("general.architecture").value_or("") + ".";
  constexpr std::pair<PoolingKind, int64_t> kTypes[] = {{PoolingKind::kNone, 0},
                                                        {PoolingKind::kMean, 1},
                                                        {PoolingKind::kCls, 2},
                                                        {PoolingKind::kLast, 3}};
  const auto type =
      std::ranges::find(kTypes, setup.files.pooling, &std::pair<PoolingKind, int64_t>::first);
  if (!scores && type == std::end(kTypes))
    throw Error(ErrorKind::kUnsupported, "{}: GGUF does not support {} pooling", file.path,
                name(setup.files.pooling));
  add_dense(file, setup, prefix, metadata);
  metadata.set(prefix + "pooling_type", scores ? int64_t{4} : type->second);
  if (encoder) metadata.set(prefix + "attention.causal", false);
  if (c.input.token_types > 0)
    metadata.set("tokenizer.ggml.token_type_count", static_cast<int64_t>(c.input.token_types));
  if (scores && c.architecture == "modern-bert")
    metadata.set(prefix + "classifier.pooling_type",
                 int64_t{setup.score.pooling == Pooling::kMean ? 1 : 2});
}

// Stores the rows of the output head for "yes" and "no" as a classifier, as llama.cpp does for
// Qwen3-Reranker.
void write_yes_no(ModelFile& file, const TransformerConfig& c, Metadata& metadata) {
  if (c.attention.mask != Mask::kCausal || !makes_scores(file, c) || file.find("cls.output.weight"))
    return;
  const std::vector<std::string_view>* tokens = metadata.texts("tokenizer.ggml.tokens");
  const SentenceConfig files = read_sentence_folder(file.path);
  std::vector<TensorView> rows;
  const TensorView head = file.at(c.output.tied ? "token_embd.weight" : "output.weight");
  for (const auto& [word, given] : {std::pair("yes", files.yes), std::pair("no", files.no)}) {
    int64_t id = given;
    for (int64_t i = 0; id < 0 && tokens != nullptr && i < std::ssize(*tokens); ++i)
      if ((*tokens)[static_cast<size_t>(i)] == word) id = i;
    if (id < 0 || id >= head.shape[0])
      throw Error(ErrorKind::kFormat,
                  "{}: the output head has {} rows, but none for the token '{}'", file.path,
                  head.shape[0], word);
    rows.push_back(slice_rows(head, word, id, id + 1));
  }
  std::erase_if(file.tensors, [](const TensorView& t) { return t.name == "output.weight"; });
  file.tensors.push_back(join_rows(std::move(rows), "cls.output.weight"));
  const std::string prefix = metadata.text("general.architecture").value_or("") + ".";
  metadata.set_texts(prefix + "classifier.output_labels", {"yes", "no"});
}

// Converts `file`, which was opened from the folder `path`.
void make_gguf(ModelFile& file, const std::string& path) {
  const TransformerConfig c = read_config(file);
  refuse_surplus_layers(file, c);
  refuse_unknown_config_keys(file);
  refuse_unknown_tensors(file, c);
  drop_other_parts(file);
  write_head(file, c);
  fold_multipliers(file, c);
  pair_rows(file, c);
  Metadata metadata = gguf_keys(c, file);
  if (has_draft_head(file, c)) {
    metadata.set(c.architecture + ".block_count", int64_t{c.layers} + c.mtp_layers);
    metadata.set(c.architecture + ".nextn_predict_layers", int64_t{c.mtp_layers});
  }
  add_sentence_keys(file, c, metadata);
  join_projections(file, c);
  name_recurrent(file, c);
  for (const RenameRow& row : kRenamed)
    if (row.architecture == c.architecture) rename(file, row.from, row.to);
  if (c.norms.qk == QkNorm::kOwn) shape_head_norms(file, c);
  add_divisors(file, c);
  for (TensorView& tensor : file.tensors) tensor = in_ggml_type(tensor);
  in_order(file);
  for (const auto& [key, value] : file.metadata.all())
    if (metadata.find(key) == nullptr) metadata.set(key, value);
  add_gguf_tokenizer(path, c.vocab, metadata, c.source.layers == 0);
  write_yes_no(file, c, metadata);
  restore_metadata(*file.config, metadata);
  file.metadata = std::move(metadata);
  file.container = Container::kGguf;
  file.config = nullptr;
}

}  // namespace

ModelFile open_as_gguf(const std::string& meant) {
  const std::string path = find_model(meant);
  if (!is_folder(path)) {
    ModelFile file = open_model_file(path);
    for (TensorView& tensor : file.tensors) tensor = in_ggml_type(tensor);
    return file;
  }
  ModelFile file = open_model(path);
  file.checked([&] { make_gguf(file, path); });
  return file;
}

}  // namespace veery
