#include "import/sentence_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "file/folder/folder.h"
#include "import/json_fields.h"

namespace veery {
namespace {

struct PoolingName {
  PoolingKind kind;
  std::string_view name;  ///< of the flag and of newer files
  const char* key;        ///< of the older ones
};
constexpr PoolingName kPoolings[] = {
    {PoolingKind::kNone, "none", nullptr},
    {PoolingKind::kCls, "cls", "pooling_mode_cls_token"},
    {PoolingKind::kMean, "mean", "pooling_mode_mean_tokens"},
    {PoolingKind::kLast, "last", "pooling_mode_lasttoken"},
    {PoolingKind::kMax, "max", "pooling_mode_max_tokens"},
    {PoolingKind::kMeanSqrtLen, "mean-sqrt-len", "pooling_mode_mean_sqrt_len_tokens"},
    {PoolingKind::kWeightedMean, "weighted-mean", "pooling_mode_weightedmean_tokens"}};

// The names of newer files that differ.
constexpr std::pair<std::string_view, PoolingKind> kOtherNames[] = {
    {"lasttoken", PoolingKind::kLast},
    {"mean_sqrt_len_tokens", PoolingKind::kMeanSqrtLen},
    {"weightedmean", PoolingKind::kWeightedMean}};

std::string pooling_names() {
  std::string text;
  for (const PoolingName& row : kPoolings)
    text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

/// A JSON file of a model's folder; absent: an empty object.
struct ConfigFile {
  std::string path;
  Json json = Json::object();

  explicit ConfigFile(std::string where) : path(std::move(where)) {
    if (path_exists(path)) json = read_json_file(path);
  }
  JsonFields fields() const { return {json, Json::object(), path}; }
};

PoolingKind read_pooling_name(const Json& value, const std::string& where) {
  const std::string given = value.is_string() ? value.get<std::string>() : std::string("no text");
  for (const PoolingName& row : kPoolings)
    if (row.name == given) return row.kind;
  for (const auto& [name, kind] : kOtherNames)
    if (name == given) return kind;
  throw Error(ErrorKind::kUnsupported, "{}: pooling_mode is {}, expected one of {}", where,
              printable(given), pooling_names());
}

void read_pooling(const std::string& path, const TransformerConfig& config, SentenceConfig& c) {
  const ConfigFile file(path + "/config.json");
  const JsonFields fields = file.fields();
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"})
    if (fields.given(key) && fields.size(key) != config.dim)
      throw Error(ErrorKind::kFormat, "{}: {} is {}, the model gives rows of {}", file.path, key,
                  fields.size(key), config.dim);
  if (!fields.flag_or("include_prompt", true))
    throw Error(ErrorKind::kUnsupported, "{}: include_prompt is false, expected true", file.path);
  c.pooling_given = true;
  if (const Json* mode = fields.find("pooling_mode"); mode != nullptr) {
    c.pooling = read_pooling_name(*mode, file.path);
    return;
  }
  int found = 0;
  for (const auto& [key, value] : file.json.items()) {
    if (!key.starts_with("pooling_mode_") || !value.is_boolean() || !value.get<bool>()) continue;
    const auto row = std::ranges::find_if(
        kPoolings, [&](const PoolingName& p) { return p.key != nullptr && key == p.key; });
    if (row == std::end(kPoolings))
      throw Error(ErrorKind::kUnsupported, "{}: {} is true, which is no pooling of {}", file.path,
                  printable(key), pooling_names());
    c.pooling = row->kind;
    ++found;
  }
  if (found != 1)
    throw Error(ErrorKind::kUnsupported, "{}: {} kinds of pooling are chosen, expected one",
                file.path, found);
}

Activation read_activation(const JsonFields& fields, const char* key, const char* usual) {
  const std::string name = fields.text_or(key, usual);
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"Identity", Activation::kNone},   {"Tanh", Activation::kTanh},
      {"Sigmoid", Activation::kSigmoid}, {"ReLU", Activation::kRelu},
      {"GELU", Activation::kGeluErf},    {"SiLU", Activation::kSilu},
      {"tanh", Activation::kTanh},       {"relu", Activation::kRelu},
      {"gelu", Activation::kGeluErf},    {"silu", Activation::kSilu}};
  for (const auto& [known, activation] : kNames)
    if (known == last) return activation;
  throw Error(ErrorKind::kUnsupported,
              "{}: {} is '{}', expected Identity, Tanh, Sigmoid, ReLU, GELU or SiLU",
              fields.where(), key, printable(name));
}

// One Dense module: its matrix must take what comes before it.
void read_dense(const std::string& path, ModelFile& file, int64_t width, SentenceConfig& c) {
  const ModelFile module = open_folder(path);
  const ConfigFile config(path + "/config.json");
  const JsonFields fields = config.fields();
  const std::string name = fmt::format("dense.{}", c.dense.size());
  for (const char* part : {"weight", "bias"}) {
    const TensorView* found = module.find(fmt::format("linear.{}", part));
    if (found == nullptr && std::string_view(part) == "bias") continue;
    if (found == nullptr)
      throw Error(ErrorKind::kFormat, "{}: tensor linear.weight is missing", path);
    file.tensors.push_back(*found);
    file.tensors.back().name = fmt::format("{}.{}", name, part);
  }
  const TensorView& weight = file.at(name + ".weight");
  if (weight.shape.size() != 2 || weight.shape[1] != width)
    throw Error(ErrorKind::kFormat, "{}: linear.weight takes {} columns, expected {}", path,
                weight.shape.size() == 2 ? weight.shape[1] : 0, width);
  c.dense.push_back({weight.shape[0], read_activation(fields, "activation_function", "Tanh")});
}

// A module lies in the folder itself.
std::string module_path(const ModelFile& file, const std::string& where, const std::string& path) {
  const bool outside =
      path.empty() || path.starts_with('/') || path.find("..") != std::string::npos;
  if (outside)
    throw Error(ErrorKind::kFormat, "{}: the path '{}' is no folder of the model's", where,
                printable(path));
  return file.path + "/" + path;
}

void read_modules(ModelFile& file, const TransformerConfig& config, SentenceConfig& c) {
  const std::string where = file.path + "/modules.json";
  if (!path_exists(where)) return;
  const Json modules = parse_json(read_text(where, kConfigFile), where);
  if (!modules.is_array())
    throw Error(ErrorKind::kFormat, "{}: is a JSON {}, expected a list of modules", where,
                modules.type_name());
  c.normalize = false;
  int64_t width = config.dim;
  for (const Json& module : modules) {
    const auto text = [&](const char* key) -> std::string {
      const auto found = module.is_object() ? module.find(key) : module.end();
      if (!module.is_object() || found == module.end() || !found->is_string())
        throw Error(ErrorKind::kFormat, "{}: a module has no text {}", where, key);
      return found->get<std::string>();
    };
    const std::string type = text("type");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer") continue;
    if (kind == "Normalize") {
      c.normalize = true;
    } else if (kind == "Pooling") {
      read_pooling(module_path(file, where, text("path")), config, c);
    } else if (kind == "Dense") {
      read_dense(module_path(file, where, text("path")), file, width, c);
      width = c.dense.back().out;
    } else {
      throw Error(ErrorKind::kUnsupported,
                  "{}: a module is '{}', expected Transformer, Pooling, Dense or Normalize", where,
                  printable(type));
    }
  }
}

void read_prompts(const ModelFile& file, SentenceConfig& c) {
  const ConfigFile config(file.path + "/config_sentence_transformers.json");
  const JsonFields fields = config.fields();
  if (const Json* prompts = fields.find("prompts"); prompts != nullptr) {
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_string())
        throw Error(ErrorKind::kFormat, "{}: the prompt {} is a JSON {}, expected a text",
                    config.path, printable(name), text.type_name());
      c.prompts[name] = text.get<std::string>();
    }
  }
  c.default_prompt = fields.text_or("default_prompt_name", "");
  if (!c.default_prompt.empty() && !c.prompts.contains(c.default_prompt))
    throw Error(ErrorKind::kFormat, "{}: default_prompt_name is '{}', which is none of the prompts",
                config.path, printable(c.default_prompt));
}

// The head of a cross-encoder: what transformers' classes do that config.json does not say.
void read_head(const ModelFile& file, SentenceConfig& c) {
  const JsonFields fields(*file.config, Json::object(), file.path + "/config.json");
  const bool modern = fields.text_or("model_type", "") == "modernbert";
  c.score.activation =
      modern ? read_activation(fields, "classifier_activation", "gelu") : Activation::kTanh;
  if (modern && fields.text_or("classifier_pooling", "cls") == "mean")
    c.score.pooling = Pooling::kMean;
  if (fields.has("sbert_ce_default_activation_function"))
    c.sigmoid =
        read_activation(fields, "sbert_ce_default_activation_function", "") == Activation::kSigmoid;
  const Json* sentence = fields.find("sentence_transformers");
  if (sentence == nullptr || !sentence->is_object()) return;
  const JsonFields of_sentence(*sentence, Json::object(), fields.where());
  c.sigmoid = of_sentence.has("activation_fn") &&
              read_activation(of_sentence, "activation_fn", "") == Activation::kSigmoid;
}

void read_folder(ModelFile& file, const TransformerConfig& config, SentenceConfig& c) {
  read_modules(file, config, c);
  read_prompts(file, c);
  read_head(file, c);
  const ConfigFile bert(file.path + "/sentence_bert_config.json");
  const JsonFields fields = bert.fields();
  c.max_tokens = static_cast<int32_t>(fields.size_or_zero("max_seq_length"));
  c.lower_case = fields.flag_or("do_lower_case", false);
}

// llama.cpp's keys and names.
void read_gguf(ModelFile& file, const TransformerConfig& config, SentenceConfig& c) {
  constexpr PoolingKind kKinds[] = {PoolingKind::kNone, PoolingKind::kMean, PoolingKind::kCls,
                                    PoolingKind::kLast, PoolingKind::kCls};  // 4: for scores
  const std::string key = config.architecture + ".pooling_type";
  if (const auto type = file.metadata.integer(key)) {
    if (*type < 0 || *type >= std::ssize(kKinds))
      throw Error(ErrorKind::kUnsupported, "metadata: {} is {}, expected 0 to 4", key, *type);
    c.pooling = kKinds[*type];
    c.pooling_given = true;
  }
  if (config.architecture == "modern-bert") c.score.activation = Activation::kGeluErf;
  int64_t width = config.dim;
  for (const char* part : {"dense_2", "dense_3"}) {
    const auto found =
        std::ranges::find(file.tensors, fmt::format("{}.weight", part), &TensorView::name);
    if (found == file.tensors.end()) continue;
    if (found->shape.size() != 2 || found->shape[1] != width)
      throw Error(ErrorKind::kFormat, "{}: tensor {}.weight takes {} columns, expected {}",
                  file.path, part, found->shape.size() == 2 ? found->shape[1] : 0, width);
    found->name = fmt::format("dense.{}.weight", c.dense.size());
    c.dense.push_back({found->shape[0], Activation::kNone});
    width = found->shape[0];
  }
}

}  // namespace

std::string_view name(PoolingKind kind) {
  return std::ranges::find(kPoolings, kind, &PoolingName::kind)->name;
}

PoolingKind pooling_from_name(std::string_view given) {
  const auto row = std::ranges::find(kPoolings, given, &PoolingName::name);
  if (row == std::end(kPoolings))
    throw Error(ErrorKind::kInput, "pooling is '{}', expected one of {}", printable(given),
                pooling_names());
  return row->kind;
}

SentenceConfig read_sentence_config(ModelFile& file, const TransformerConfig& config) {
  SentenceConfig c;
  if (config.mask == Mask::kCausal) c.pooling = PoolingKind::kLast;
  if (file.container == Container::kFolder)
    read_folder(file, config, c);
  else
    read_gguf(file, config, c);
  return c;
}

}  // namespace veery
