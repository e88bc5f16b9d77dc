#include "import/folder/sentence_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/folder/folder.h"
#include "file/folder/row_sources.h"
#include "file/folder/safetensors.h"
#include "import/folder/json_fields.h"

namespace veery {
namespace {

using Kind = SentenceModule::Kind;
constexpr size_t kMostModules = 64;

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<Kind> kModules[] = {{"Transformer", Kind::kTransformer},
                                    {"Pooling", Kind::kPooling},
                                    {"Dense", Kind::kDense},
                                    {"Normalize", Kind::kNormalize},
                                    {"Dropout", Kind::kDropout},
                                    {"LogitScore", Kind::kLogitScore}};
// sentence-transformers 5.4 and later writes one `pooling_mode`, earlier versions one flag per
// mode.
constexpr Named<PoolingKind> kPoolings[] = {{"cls", PoolingKind::kCls},
                                            {"mean", PoolingKind::kMean},
                                            {"lasttoken", PoolingKind::kLast},
                                            {"max", PoolingKind::kMax},
                                            {"mean_sqrt_len_tokens", PoolingKind::kMeanSqrtLen},
                                            {"weightedmean", PoolingKind::kWeightedMean}};
constexpr Named<PoolingKind> kPoolingFlags[] = {
    {"pooling_mode_cls_token", PoolingKind::kCls},
    {"pooling_mode_mean_tokens", PoolingKind::kMean},
    {"pooling_mode_lasttoken", PoolingKind::kLast},
    {"pooling_mode_max_tokens", PoolingKind::kMax},
    {"pooling_mode_mean_sqrt_len_tokens", PoolingKind::kMeanSqrtLen},
    {"pooling_mode_weightedmean_tokens", PoolingKind::kWeightedMean}};
constexpr Named<Similarity> kSimilarities[] = {{"cosine", Similarity::kCosine},
                                               {"dot", Similarity::kDot},
                                               {"dot_product", Similarity::kDot},
                                               {"euclidean", Similarity::kEuclidean},
                                               {"manhattan", Similarity::kManhattan}};

// Returns the value with this name. `what` describes it in messages.
template <typename T, size_t N>
T value_of(const Named<T> (&names)[N], std::string_view name, const std::string& what) {
  std::string known;
  for (const Named<T>& entry : names) {
    if (entry.name == name) return entry.value;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error(ErrorKind::kUnsupported, "{} is \"{}\", expected one of {}", what, printable(name),
              known);
}

const Json& checked_object(const Json& json, const std::string& where) {
  if (!json.is_object())
    throw Error(ErrorKind::kFormat, "{}: is a JSON {}, expected an object", where,
                json.type_name());
  return json;
}

std::string checked_path(std::string path, const std::string& where) {
  if (path.find_first_of("/\\") != std::string::npos || path.starts_with('.') ||
      path.find('\0') != std::string::npos)
    throw Error(ErrorKind::kFormat,
                "{}: the path of a module is '{}', expected a name in the folder", where,
                printable(path));
  return path;
}

// Returns whether the modules form a cross-encoder: only the model, which has a score head, or the
// model followed by LogitScore.
bool is_ranker(const std::vector<SentenceModule>& modules) {
  return !modules.empty() && modules[0].kind == Kind::kTransformer &&
         (modules.size() == 1 || (modules.size() == 2 && modules[1].kind == Kind::kLogitScore));
}

// Accepts Transformer, Pooling, Dense, Normalize in this order, or the modules of a cross-encoder.
void check_order(const std::vector<SentenceModule>& modules, const std::string& where) {
  const auto count = [&](Kind kind) {
    return std::ranges::count(modules, kind, &SentenceModule::kind);
  };
  if (is_ranker(modules)) return;
  if (modules.empty() || modules[0].kind != Kind::kTransformer || count(Kind::kTransformer) != 1 ||
      count(Kind::kPooling) != 1 || count(Kind::kLogitScore) != 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: has {} Transformer, {} Pooling and {} LogitScore, expected one Transformer, "
                "first, and one Pooling, or LogitScore alone",
                where, count(Kind::kTransformer), count(Kind::kPooling), count(Kind::kLogitScore));
  bool pooled = false, normalized = false;
  for (const SentenceModule& module : modules) {
    const bool early = !pooled && (module.kind == Kind::kDense || module.kind == Kind::kNormalize);
    if (early || (normalized && module.kind == Kind::kDense))
      throw Error(ErrorKind::kUnsupported,
                  "{}: found a module before Pooling or a Dense after Normalize, expected "
                  "Transformer, Pooling, Dense, Normalize",
                  where);
    pooled |= module.kind == Kind::kPooling;
    normalized |= module.kind == Kind::kNormalize;
  }
}

// Rejects modules that read or write anything other than the pooled vector.
void check_input(const JsonFields& fields) {
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const std::string name = fields.text_or(key, "sentence_embedding");
        name != "sentence_embedding")
      throw Error(ErrorKind::kUnsupported, "{}: {} is \"{}\", expected sentence_embedding",
                  fields.where(), key, printable(name));
}

std::string module_folder(const std::string& folder, const std::string& path) {
  if (path.empty()) return folder;
  const std::string whole = folder + "/" + path;
  std::error_code code;
  if (std::filesystem::is_symlink(whole, code))
    throw Error(ErrorKind::kUnsupported, "{}: is a link, expected a folder", shown_path(whole));
  return whole;
}

TensorView view_of(const SafetensorsFile& file, const char* name,
                   const std::vector<int64_t>& shape) {
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr)
    throw Error(ErrorKind::kFormat, "{}: missing tensor '{}'", shown_path(file.path), name);
  const auto dtype = to_dtype(tensor->type);
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' is of type {}, expected F32, F16 or BF16",
                shown_path(file.path), name, veery::name(tensor->type));
  if (tensor->shape != shape)
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' is ({}), expected ({})", shown_path(file.path),
                name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  TensorView view{name, *dtype, tensor->shape, tensor->data};
  const auto element = static_cast<size_t>(byte_size(tensor->type));
  if (reinterpret_cast<uintptr_t>(view.data.data()) % element != 0) {
    view.source = make_copy(view.data, static_cast<size_t>(shape.back()) * element);
    view.data = {};
  }
  return view;
}

SentenceDense read_dense(const std::string& folder, SentenceConfig& config) {
  SentenceDense layer =
      parse_dense(read_json_file(folder + "/config.json"), folder + "/config.json");
  const std::string path = folder + "/model.safetensors";
  if (!path_exists(path) && path_exists(folder + "/pytorch_model.bin"))
    throw Error(ErrorKind::kUnsupported, "{}: has only pytorch_model.bin, expected {}",
                shown_path(folder), "model.safetensors");
  SafetensorsFile file = open_safetensors(path);
  layer.weight = view_of(file, "linear.weight", {layer.out, layer.in});
  if (layer.has_bias) layer.bias = view_of(file, "linear.bias", {layer.out});
  config.mappings.push_back(std::move(file.mapping));
  return layer;
}

// Checks that each dense layer matches the output of the previous one.
void check_widths(const SentenceConfig& config, const std::string& where) {
  int64_t width = config.pooled_width;
  for (const SentenceDense& layer : config.dense) {
    if (width > 0 && layer.in != width)
      throw Error(ErrorKind::kFormat, "{}: a Dense expects {} inputs, found {}", where, layer.in,
                  width);
    width = layer.out;
  }
}

void read_module(const SentenceModule& module, const std::string& folder, SentenceConfig& config) {
  if (module.kind == Kind::kTransformer) {
    config.transformer = module.path;
    return;
  }
  const std::string place = module_folder(folder, module.path);
  const std::string settings = place + "/config.json";
  if (module.kind == Kind::kPooling) parse_pooling(read_json_file(settings), settings, config);
  if (module.kind == Kind::kLogitScore)
    parse_logit_score(read_json_file(settings), settings, config);
  if (module.kind == Kind::kDense) config.dense.push_back(read_dense(place, config));
  if (module.kind == Kind::kNormalize) {
    config.normalize = true;
    if (!module.path.empty() && path_exists(settings))
      check_input(JsonFields(read_json_file(settings), Json::object(), settings));
  }
}

}  // namespace

std::vector<SentenceModule> parse_sentence_modules(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() > kMostModules)
    throw Error(ErrorKind::kFormat, "{}: expected an array of at most {} modules", where,
                kMostModules);
  std::vector<SentenceModule> modules;
  for (const Json& entry : json) {
    const JsonFields fields(checked_object(entry, where), Json::object(), where);
    const std::string type = fields.text_or("type", "");
    if (!type.starts_with("sentence_transformers."))
      throw Error(ErrorKind::kUnsupported,
                  "{}: a module of type \"{}\", expected one of sentence_transformers", where,
                  printable(type));
    const Kind kind =
        value_of(kModules, type.substr(type.rfind('.') + 1), where + ": the type of a module");
    modules.push_back({kind, checked_path(fields.text_or("path", ""), where)});
  }
  check_order(modules, where);
  return modules;
}

void parse_logit_score(const Json& json, const std::string& where, SentenceConfig& config) {
  const JsonFields fields(checked_object(json, where), Json::object(), where);
  if (!fields.has("false_token_id"))
    throw Error(ErrorKind::kUnsupported,
                "{}: missing false_token_id, expected two tokens to compare", where);
  config.yes = fields.size_or_zero("true_token_id");
  config.no = fields.size_or_zero("false_token_id");
}

namespace {

// Returns the poolings whose flags are set; mean pooling if there are no flags.
std::vector<PoolingKind> flagged_poolings(const Json& json, const JsonFields& fields) {
  std::vector<PoolingKind> modes;
  bool has_flags = false;
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with("pooling_mode_") || value.is_null()) continue;
    has_flags = true;
    if (fields.flag_or(key.c_str(), false))
      modes.push_back(value_of(kPoolingFlags, key, fields.where() + ": a pooling that is true"));
  }
  return has_flags ? modes : std::vector{PoolingKind::kMean};
}

}  // namespace

void parse_pooling(const Json& json, const std::string& where, SentenceConfig& config) {
  const JsonFields fields(checked_object(json, where), Json::object(), where);
  std::vector<PoolingKind> modes;
  const auto add = [&](const Json& mode) {
    if (!mode.is_string())
      throw Error(ErrorKind::kFormat, "{}: pooling_mode is {}, expected a string", where,
                  printable(dump_json(mode), 60));
    modes.push_back(value_of(kPoolings, mode.string(), where + ": pooling_mode"));
  };
  if (const Json* mode = fields.find("pooling_mode")) {
    if (mode->is_array())
      for (const Json& one : *mode) add(one);
    else
      add(*mode);
  } else {
    modes = flagged_poolings(json, fields);
  }
  if (modes.size() != 1)
    throw Error(ErrorKind::kUnsupported, "{}: has {} poolings, expected one", where, modes.size());
  config.pooling = modes[0];
  const bool renamed = fields.has("embedding_dimension");
  config.pooled_width =
      fields.size_or_zero(renamed ? "embedding_dimension" : "word_embedding_dimension");
  config.include_prompt = fields.flag_or("include_prompt", true);
}

SentenceDense parse_dense(const Json& json, const std::string& where) {
  const JsonFields fields(checked_object(json, where), Json::object(), where);
  check_input(fields);
  if (fields.flag_or("use_residual", false))
    throw Error(ErrorKind::kUnsupported, "{}: use_residual is true, expected false", where);
  const std::string activation =
      fields.text_or("activation_function", "torch.nn.modules.activation.Tanh");
  constexpr Named<DenseActivation> kActivations[] = {{"Identity", DenseActivation::kIdentity},
                                                     {"Tanh", DenseActivation::kTanh}};
  const std::string name = activation.substr(activation.rfind('.') + 1);
  SentenceDense layer;
  layer.activation = value_of(kActivations, name, where + ": activation_function");
  layer.in = fields.size("in_features");
  layer.out = fields.size("out_features");
  layer.has_bias = fields.flag_or("bias", true);
  return layer;
}

void parse_sentence_settings(const Json& json, const std::string& where, SentenceConfig& config) {
  const JsonFields fields(checked_object(json, where), Json::object(), where);
  if (const Json* prompts = fields.find("prompts"))
    for (const auto& [name, text] : checked_object(*prompts, where + ": prompts").items()) {
      if (!text.is_string() && !text.is_null())
        throw Error(ErrorKind::kFormat, "{}: the prompt \"{}\" is {}, expected a string", where,
                    printable(name), printable(dump_json(text), 60));
      config.prompts[name] = text.is_string() ? text.string() : "";
    }
  config.default_prompt = fields.text_or("default_prompt_name", "");
  if (!config.default_prompt.empty() && !config.prompts.contains(config.default_prompt))
    throw Error(ErrorKind::kFormat, "{}: default_prompt_name is \"{}\", expected a key of prompts",
                where, printable(config.default_prompt));
  config.similarity = value_of(kSimilarities, fields.text_or("similarity_fn_name", "cosine"),
                               where + ": similarity_fn_name");
}

SentenceConfig read_sentence_folder(const std::string& folder) {
  SentenceConfig config;
  const std::string modules = folder + "/modules.json";
  if (path_exists(modules)) {
    const Json json = parse_json(MappedFile(modules, kConfigFile).text(), modules);
    const std::vector<SentenceModule> all = parse_sentence_modules(json, modules);
    config.is_ranker = is_ranker(all);
    config.given = !config.is_ranker;
    for (const SentenceModule& module : all) read_module(module, folder, config);
    check_widths(config, modules);
  }
  const std::string limits =
      module_folder(folder, config.transformer) + "/sentence_bert_config.json";
  if (path_exists(limits)) {
    const Json json = read_json_file(limits);
    const JsonFields fields(json, Json::object(), limits);
    if (fields.has("max_seq_length")) config.max_length = fields.size("max_seq_length");
    config.lower_case = fields.flag_or("do_lower_case", false);
  }
  const std::string settings = folder + "/config_sentence_transformers.json";
  if (path_exists(settings)) parse_sentence_settings(read_json_file(settings), settings, config);
  return config;
}

SentenceConfig read_gguf_sentence(const ModelFile& file) {
  SentenceConfig config;
  const std::string arch = file.metadata.text("general.architecture").value_or("");
  const std::string key = arch + ".pooling_type";
  if (const auto type = file.metadata.integer(key)) {
    constexpr PoolingKind kTypes[] = {PoolingKind::kNone, PoolingKind::kMean, PoolingKind::kCls,
                                      PoolingKind::kLast, PoolingKind::kCls};
    if (*type < 0 || *type > 4)
      throw Error(ErrorKind::kUnsupported, "{}: {} is {}, expected 0 to 4", shown_path(file.path),
                  printable(key), *type);
    config.given = true;
    config.pooling = kTypes[*type];
    config.is_ranker = *type == 4;
    if (const auto* labels = file.metadata.texts(arch + ".classifier.output_labels"))
      config.labels.assign(labels->begin(), labels->end());
    config.normalize = *type > 0 && *type < 4;
  }
  for (const char* name : {"dense_2", "dense_3"}) {
    const TensorView* weight = file.find(std::string(name) + ".weight");
    if (weight == nullptr) continue;
    const auto in = file.metadata.integer(fmt::format("{}.{}_feat_in", arch, name));
    const auto out = file.metadata.integer(fmt::format("{}.{}_feat_out", arch, name));
    if (weight->shape.size() != 2 || in.value_or(weight->shape[1]) != weight->shape[1] ||
        out.value_or(weight->shape[0]) != weight->shape[0])
      throw Error(ErrorKind::kFormat, "{}: {}.weight is ({}), expected ({}, {})",
                  shown_path(file.path), name, fmt::join(weight->shape, ", "), out.value_or(0),
                  in.value_or(0));
    config.dense.push_back({.in = weight->shape[1],
                            .out = weight->shape[0],
                            .activation = DenseActivation::kIdentity,
                            .has_bias = false,
                            .weight = *weight,
                            .bias = std::nullopt});
  }
  check_widths(config, shown_path(file.path));
  return config;
}

ScoreLabels parse_score_config(const Json& json, const std::string& where) {
  const JsonFields fields(checked_object(json, where), Json::object(), where);
  ScoreLabels config;
  if (const Json* labels = fields.find("id2label"))
    config.labels = static_cast<int64_t>(checked_object(*labels, where + ": id2label").size());
  else if (fields.has("num_labels"))
    config.labels = fields.size("num_labels");
  if (config.labels < 1)
    throw Error(ErrorKind::kFormat, "{}: id2label has no labels, expected at least one", where);
  config.sigmoid = config.labels == 1;
  std::string name = fields.text_or("sbert_ce_default_activation_function", "");
  if (const Json* own = fields.find("sentence_transformers"))
    name =
        JsonFields(checked_object(*own, where + ": sentence_transformers"), Json::object(), where)
            .text_or("activation_fn", name.c_str());
  if (name.empty()) return config;
  constexpr Named<bool> kActivations[] = {{"Identity", false}, {"Sigmoid", true}};
  config.sigmoid =
      value_of(kActivations, name.substr(name.rfind('.') + 1), where + ": activation_fn");
  return config;
}

}  // namespace veery
