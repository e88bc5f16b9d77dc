#include "import/folder/sentence_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/json_fields.h"

namespace veery {
namespace {

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

// The layers behind the pooled row, as tensors of the file.
void add_dense(ModelFile& file, const TransformerConfig& config, SentenceSetup& setup) {
  int64_t width = config.dim;
  for (const SentenceDense& layer : setup.files.dense) {
    const std::string name = fmt::format("dense.{}", setup.embedding.dense.size());
    if (layer.in != width)
      throw Error(ErrorKind::kFormat,
                  "{}: a dense layer takes {} columns, what comes before has {}", file.path,
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

// What transformers' classes with a head for scores do.
void read_head(const ModelFile& file, const TransformerConfig& config, SentenceSetup& setup) {
  const bool modern = config.architecture == "modern-bert";
  setup.score.activation = modern ? Activation::kGeluErf : Activation::kTanh;
  if (file.container != Container::kFolder) return;
  const JsonFields fields(*file.config, Json::object(), file.path + "/config.json");
  const std::string pooling = fields.text_or("classifier_pooling", "cls");
  if (modern && pooling == "mean") setup.score.pooling = Pooling::kMean;
  if (modern && pooling != "mean" && pooling != "cls")
    throw Error(ErrorKind::kUnsupported, "{}: classifier_pooling is '{}', expected cls or mean",
                fields.where(), printable(pooling));
  setup.sigmoid = parse_score_config(*file.config, fields.where()).sigmoid;
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

SentenceSetup read_sentence_setup(ModelFile& file, const TransformerConfig& config) {
  SentenceSetup setup;
  const bool folder = file.container == Container::kFolder;
  setup.files = folder ? read_sentence_folder(file.path) : read_gguf_sentence(file);
  SentenceConfig& files = setup.files;
  if (!files.given) {
    files.pooling = config.mask == Mask::kCausal ? PoolingKind::kLast : PoolingKind::kMean;
    files.normalize = true;
  }
  if (!files.transformer.empty())
    throw Error(ErrorKind::kUnsupported, "{}: the transformer lies in the folder {}: open that one",
                file.path, printable(files.transformer));
  if (!files.include_prompt)
    throw Error(ErrorKind::kUnsupported, "{}: include_prompt is false, expected true", file.path);
  if (files.pooled_width > 0 && files.pooled_width != config.dim)
    throw Error(ErrorKind::kFormat, "{}: rows of {} columns are pooled, the model gives {}",
                file.path, files.pooled_width, config.dim);
  setup.embedding.pooling = pooling_of(files.pooling);
  setup.embedding.normalize = files.normalize;
  add_dense(file, config, setup);
  read_head(file, config, setup);
  return setup;
}

}  // namespace veery
