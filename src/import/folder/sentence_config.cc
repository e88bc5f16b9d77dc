#include "import/folder/sentence_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "import/folder/json_fields.h"

namespace veery {
namespace {

// Returns the columns of the pooled rows.
int64_t row_columns(const TransformerConfig& config) {
  return config.output.projected > 0 ? config.output.projected : config.dim;
}

struct PoolingName {
  PoolingKind kind;
  std::string_view name;
  std::optional<Pooling> pooling;
};
constexpr PoolingName kPoolings[] = {
    {PoolingKind::kCls, "cls", Pooling::kFirst},
    {PoolingKind::kMean, "mean", Pooling::kMean},
    {PoolingKind::kLast, "last", Pooling::kLast},
    {PoolingKind::kMax, "max", Pooling::kMax},
    {PoolingKind::kMeanSqrtLen, "mean-sqrt-len", Pooling::kSumOverRoot},
    {PoolingKind::kWeightedMean, "weighted-mean", Pooling::kWeightedMean},
    {PoolingKind::kNone, "none", std::nullopt}};

std::string pooling_names() {
  std::string text;
  for (const PoolingName& row : kPoolings)
    text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

const PoolingName& row_of(PoolingKind kind) {
  return *std::ranges::find(kPoolings, kind, &PoolingName::kind);
}

// Adds the dense layers after pooling, as tensors of the file.
void add_dense(ModelFile& file, const TransformerConfig& config, SentenceSetup& setup) {
  int64_t width = row_columns(config);
  for (const SentenceDense& layer : setup.files.dense) {
    const std::string name = fmt::format("dense.{}", setup.embedding.dense.size());
    if (layer.in != width)
      throw Error(ErrorKind::kFormat, "{}: a dense layer expects {} columns, found {}", file.path,
                  layer.in, width);
    file.tensors.push_back(layer.weight);
    file.tensors.back().name = name + ".weight";
    if (layer.bias) {
      file.tensors.push_back(*layer.bias);
      file.tensors.back().name = name + ".bias";
    }
    width = layer.out;
    setup.embedding.dense.push_back({layer.out, layer.activation == DenseActivation::kTanh
                                                    ? Activation::kTanh
                                                    : Activation::kNone});
  }
}

constexpr const char* kHead = "cls.output.weight";

// Only Qwen3-Reranker's prompt format for decoder-based scoring is supported.
void read_yes_no(const ModelFile& file, const TransformerConfig& config, SentenceSetup& setup) {
  setup.yes_no = config.architecture == "qwen3" && !setup.files.given;
  setup.yes_no |= config.architecture == "qwen3" && setup.files.is_ranker;
  setup.score.pooling = Pooling::kLast;
  setup.score.logits = setup.yes_no && file.find(kHead) == nullptr;
  setup.sigmoid = true;
}

// Sets activation and pooling of the score head as in transformers' classes.
void read_head(const ModelFile& file, const TransformerConfig& config, SentenceSetup& setup) {
  if (config.attention.mask == Mask::kCausal) read_yes_no(file, config, setup);
  const bool modern = config.architecture == "modern-bert";
  setup.score.activation = modern ? Activation::kGeluErf : Activation::kTanh;
  // Default of llama.cpp: mean pooling.
  const auto pooled = file.metadata.integer(config.architecture + ".classifier.pooling_type");
  if (modern && file.container == Container::kGguf && pooled.value_or(1) == 1)
    setup.score.pooling = Pooling::kMean;
  if (file.container != Container::kFolder) return;
  const JsonFields fields(*file.config, Json::object(), file.path + "/config.json");
  const std::string pooling = fields.text_or("classifier_pooling", "cls");
  if (modern && pooling == "mean") setup.score.pooling = Pooling::kMean;
  if (modern && pooling != "mean" && pooling != "cls")
    throw Error(ErrorKind::kUnsupported, "{}: classifier_pooling is '{}', expected cls or mean",
                fields.where(), printable(pooling));
  const ScoreLabels labels = parse_score_config(*file.config, fields.where());
  if (!setup.yes_no || labels.labels == 1) setup.sigmoid = labels.sigmoid;
}

// Returns whether a line of the folder's README.md starts with `title`.
bool has_card(const std::string& folder, std::string_view title) {
  const std::string path = folder + "/README.md";
  if (!path_exists(path)) return false;
  const MappedFile file(path, kConfigFile);
  const std::string_view text = file.text();
  for (size_t at = text.find(title); at != std::string_view::npos; at = text.find(title, at + 1))
    if (at == 0 || text[at - 1] == '\n') return true;
  return false;
}

}  // namespace

std::string_view name(PoolingKind kind) { return row_of(kind).name; }
std::optional<Pooling> pooling_of(PoolingKind kind) { return row_of(kind).pooling; }

PoolingKind pooling_from_name(std::string_view given) {
  const auto row = std::ranges::find(kPoolings, given, &PoolingName::name);
  if (row == std::end(kPoolings))
    throw Error(ErrorKind::kInput, "pooling is '{}', expected one of {}", printable(given),
                pooling_names());
  return row->kind;
}

bool makes_scores(const ModelFile& file, const TransformerConfig& config) {
  if (file.find(kHead) != nullptr) return true;
  if (config.architecture != "qwen3" || file.container != Container::kFolder) return false;
  const std::string modules = file.path + "/modules.json";
  if (!path_exists(modules)) return has_card(file.path, "# Qwen3-Reranker");
  const Json json = parse_json(MappedFile(modules, kConfigFile).text(), modules);
  return json.is_array() && std::ranges::any_of(json, [](const Json& module) {
           if (!module.is_object()) return false;
           const auto type = module.find("type");
           return type != module.end() && type->is_string() &&
                  type->string().ends_with(".LogitScore");
         });
}

SentenceSetup read_sentence_setup(ModelFile& file, const TransformerConfig& config) {
  SentenceSetup setup;
  const bool folder = file.container == Container::kFolder;
  setup.files = folder ? read_sentence_folder(file.path) : read_gguf_sentence(file);
  SentenceConfig& files = setup.files;
  if (!files.given) {
    files.pooling =
        config.attention.mask == Mask::kCausal ? PoolingKind::kLast : PoolingKind::kMean;
    files.normalize = true;
  }
  if (!files.transformer.empty())
    throw Error(ErrorKind::kUnsupported,
                "{}: the transformer is in the subfolder {}, expected the path of that folder",
                file.path, printable(files.transformer));
  if (!files.include_prompt)
    throw Error(ErrorKind::kUnsupported, "{}: include_prompt is false, expected true", file.path);
  const int64_t columns = row_columns(config);
  if (files.pooled_width > 0 && files.pooled_width != columns)
    throw Error(ErrorKind::kFormat, "{}: Pooling expects {} columns, found {}", file.path,
                files.pooled_width, columns);
  setup.embedding.pooling = pooling_of(files.pooling);
  setup.embedding.normalize = files.normalize;
  add_dense(file, config, setup);
  read_head(file, config, setup);
  return setup;
}

}  // namespace veery
