#include "convert/as_gguf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/error.h"
#include "convert/gguf_keys.h"
#include "convert/recurrent_names.h"
#include "file/folder/find_model.h"
#include "file/folder/folder.h"
#include "file/folder/row_sources.h"
#include "file/gguf/gguf.h"
#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "model/arch/registry.h"
#include "text/format/gguf_tokenizer.h"

namespace veery {
namespace {

// The beginnings of GGUF's names of a model's tensors, in the order of the file.
constexpr std::string_view kBegins[] = {"token_embd.",  "token_embd_norm.", "position_embd.",
                                        "enc.",         "token_types.",     "per_layer_",
                                        "rope_freqs.",  "rope_factors_",    "blk.",
                                        "output_norm.", "output.",          "cls."};

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

// Parts of other models (vision) and masks are not the text model's, nor is a pooler before which
// no head stands; numbers of activations are keys.
void keep_text_model(ModelFile& file) {
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

// llama.cpp looks for a head of its own in files of these.
constexpr std::string_view kOwnHead[] = {"phi2",     "gptneox",   "olmo2",    "qwen2moe", "gpt-oss",
                                         "stablelm", "internlm2", "nemotron", "apertus",  "phimoe"};

void write_head(ModelFile& file, const TransformerConfig& c) {
  if (!c.tied) return;
  std::erase_if(file.tensors,
                [](const TensorView& tensor) { return tensor.name == "output.weight"; });
  if (std::ranges::find(kOwnHead, c.architecture) == std::end(kOwnHead)) return;
  TensorView head = file.at("token_embd.weight");
  head.name = "output.weight";
  file.tensors.push_back(std::move(head));
}

void pair_rows(ModelFile& file, const TransformerConfig& c) {
  const Architecture& written = find_architecture(gguf_architecture(c.architecture));
  if (!written.gguf_interleaved || c.rope_interleaved) return;
  if (c.latent.rank > 0)
    throw Error(ErrorKind::kUnsupported, "{}: GGUF has the pairs of RoPE of {} side by side only",
                file.path, c.architecture);
  for (TensorView& tensor : file.tensors)
    for (const char* part : {".attn_q.", ".attn_k."})
      if (tensor.name.find(part) != std::string::npos)
        tensor = paired_rows(tensor, c.head_dim, c.rope.dims);
}

// Projections that files of an architecture have as one matrix.
struct JointRow {
  std::string_view architecture, joint;
  std::array<std::string_view, 3> parts;
};
constexpr JointRow kJoint[] = {
    {"gpt2", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"gptneox", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"phi3", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"falcon", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"bloom", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
    {"mpt", "attn_qkv", {"attn_q", "attn_k", "attn_v"}},
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

// Names that GGUF has for some architectures only.
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

// Heads with norms of their own have matrices of weights.
void shape_head_norms(ModelFile& file, const TransformerConfig& c) {
  for (TensorView& tensor : file.tensors)
    for (const auto& [end, heads] :
         {std::pair(".attn_q_norm.weight", c.heads), std::pair(".attn_k_norm.weight", c.kv_heads)})
      if (tensor.name.ends_with(end) && tensor.elements() == int64_t{heads} * c.head_dim)
        tensor = reshaped(tensor, {heads, c.head_dim});
}

void add_divisors(ModelFile& file, const TransformerConfig& c) {
  const std::vector<float> divisors = llama3_divisors(c.rope);
  if (divisors.empty()) return;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(divisors));
  TensorView tensor{"rope_freqs.weight", DType::kF32, {std::ssize(divisors)}, {}};
  tensor.source = make_bytes({bytes.begin(), bytes.end()}, bytes.size());
  file.tensors.push_back(std::move(tensor));
}

// How rows become an embedding, under llama.cpp's keys and names. No key says how long texts may
// be, nor what stands before them.
void add_sentence_keys(ModelFile& file, const TransformerConfig& c, Metadata& metadata) {
  constexpr std::string_view kWritten[] = {"bert", "xlm-roberta", "nomic-bert"};
  const bool encoder = c.mask != Mask::kCausal;
  if (encoder && std::ranges::find(kWritten, c.architecture) == std::end(kWritten))
    throw Error(ErrorKind::kUnsupported, "{}: no GGUF files are written of {} encoders", file.path,
                c.architecture);
  if (c.source.layers > 0) return;
  const SentenceSetup setup = read_sentence_setup(file, c);
  if (!encoder && !setup.files.given) return;
  const std::string prefix = std::string(gguf_architecture(c.architecture)) + ".";
  constexpr std::pair<PoolingKind, int64_t> kTypes[] = {{PoolingKind::kNone, 0},
                                                        {PoolingKind::kMean, 1},
                                                        {PoolingKind::kCls, 2},
                                                        {PoolingKind::kLast, 3}};
  const auto type =
      std::ranges::find(kTypes, setup.files.pooling, &std::pair<PoolingKind, int64_t>::first);
  const bool scores = file.find("cls.output.weight") != nullptr;
  if ((!scores && type == std::end(kTypes)) || !setup.embedding.dense.empty())
    throw Error(ErrorKind::kUnsupported, "{}: GGUF has no key for {}", file.path,
                setup.embedding.dense.empty()
                    ? fmt::format("the pooling {}", name(setup.files.pooling))
                    : "the dense layers behind the pooled row");
  metadata.set(prefix + "pooling_type", scores ? int64_t{4} : type->second);
  if (encoder) metadata.set(prefix + "attention.causal", false);
}

}  // namespace

ModelFile open_as_gguf(const std::string& meant) {
  const std::string path = find_model(meant);
  if (!is_folder(path)) return open_model_file(path);
  ModelFile file = open_model(path);
  const TransformerConfig c = read_config(file);
  refuse_further_layers(file, c);
  keep_text_model(file);
  write_head(file, c);
  fold_multipliers(file, c);
  pair_rows(file, c);
  Metadata metadata = gguf_keys(c, file);
  add_sentence_keys(file, c, metadata);
  join_projections(file, c);
  name_recurrent(file, c);
  for (const RenameRow& row : kRenamed)
    if (row.architecture == c.architecture) rename(file, row.from, row.to);
  if (c.head_norm == HeadNorm::kOwn) shape_head_norms(file, c);
  add_divisors(file, c);
  for (TensorView& tensor : file.tensors) tensor = in_ggml_type(tensor);
  in_order(file);
  for (const auto& [key, value] : file.metadata.all())
    if (metadata.find(key) == nullptr) metadata.set(key, value);
  add_gguf_tokenizer(path, c.vocab, metadata, c.source.layers == 0);
  file.metadata = std::move(metadata);
  file.container = Container::kGguf;
  file.config = nullptr;
  return file;
}

}  // namespace veery
