#include "convert/as_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "convert/carried_metadata.h"
#include "convert/config/folder_config_write.h"
#include "convert/folder_text.h"
#include "convert/mlx_encode.h"
#include "file/folder/row_sources.h"
#include "file/folder/safetensors.h"
#include "file/output/pending_folder.h"
#include "import/folder/described.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"

namespace veery {
namespace {

constexpr size_t kSliceBytes = size_t{32} << 20;
constexpr int64_t kPieceElements = 64 << 10;

struct FloatRow {
  DType dtype;
  StoredType stored;
  std::string_view name;
};
constexpr FloatRow kFloats[] = {{DType::kF32, StoredType::kF32, "float32"},
                                {DType::kF16, StoredType::kF16, "float16"},
                                {DType::kBF16, StoredType::kBF16, "bfloat16"}};

const FloatRow& float_row(DType dtype) {
  const auto row = std::ranges::find(kFloats, dtype, &FloatRow::dtype);
  if (row == std::end(kFloats))
    throw Error(ErrorKind::kInput, "folder weights cannot have type {}, expected f32, f16 or bf16",
                info(dtype).name);
  return *row;
}

std::optional<DType> configured_dtype(const ModelFile& file) {
  if (file.container != Container::kFolder) return std::nullopt;
  const Json& config = text_config(*file.config);
  for (const Json* json : {&config, file.config.get()})
    for (const char* key : {"dtype", "torch_dtype"}) {
      const auto named = json->find(key);
      if (named == json->end() || !named->is_string()) continue;
      const auto row = std::ranges::find(kFloats, named->get<std::string>(), &FloatRow::name);
      if (row != std::end(kFloats)) return row->dtype;
    }
  return std::nullopt;
}

DType usual_dtype(const ModelFile& file, const FolderTensors& tensors) {
  if (const auto configured = configured_dtype(file)) return *configured;
  std::map<DType, int64_t> elements;
  for (const FolderTensor& tensor : tensors.tensors)
    if (tensor.view.shape.size() > 1 && info(tensor.view.dtype).block == 1)
      elements[tensor.view.dtype] += tensor.view.elements();
  DType most = DType::kBF16;
  for (const FloatRow& row : kFloats)
    if (elements[row.dtype] > elements[most]) most = row.dtype;
  return most;
}

int64_t rows_of(const TensorView& tensor) { return tensor.elements() / tensor.columns(); }

/// A tensor to convert: its source, and the one or three stored tensors that it becomes.
class Conversion {
 public:
  Conversion(const FolderTensor& tensor, DType dtype, const std::optional<MlxFormat>& format)
      : tensor_(tensor), dtype_(dtype), format_(format) {
    const TensorView& view = tensor.view;
    const int64_t columns = view.columns();
    if (!format) {
      row_[0] = byte_size(dtype, columns);
      stored_.push_back({view.name, float_row(dtype).stored, view.shape, {}});
      return;
    }
    const MlxRow row = mlx_row(*format, dtype, columns);
    row_ = {row.codes, row.scales, row.biases};
    const std::string layer = view.name.substr(0, view.name.rfind('.'));
    const bool affine = format->mode == MlxFormat::Mode::kAffine;
    const StoredType scales = affine ? float_row(dtype).stored : StoredType::kU8;
    const auto add = [&](const char* end, StoredType type, int64_t width) {
      std::vector<int64_t> shape = view.shape;
      shape.back() = width;
      stored_.push_back({layer + end, type, std::move(shape), {}});
    };
    add(".weight", StoredType::kU32, columns * format->bits / 32);
    add(".scales", scales, columns / format->group);
    if (affine) add(".biases", scales, columns / format->group);
  }

  const TensorView& view() const { return tensor_.view; }
  const std::vector<StoredTensor>& stored() const { return stored_; }
  size_t row_bytes() const { return row_[0] + row_[1] + row_[2]; }
  size_t bytes() const { return static_cast<size_t>(rows_of(view())) * row_bytes(); }

  /// Writes all rows, as the stored tensors from `index` on.
  template <typename OnBytes>
  void write(SafetensorsWriter& writer, size_t index, ThreadPool& pool,
             const OnBytes& on_bytes) const {
    const int64_t rows = rows_of(view());
    const int64_t piece =
        round_up_rows(std::max<int64_t>(1, kPieceElements / view().columns()), tensor_.together);
    const int64_t slice =
        round_up_rows(static_cast<int64_t>(std::max<size_t>(1, kSliceBytes / row_bytes())), piece);
    std::array<std::vector<std::byte>, 3> parts;
    for (int64_t first = 0; first < rows; first += slice) {
      const int64_t count = std::min(rows - first, slice);
      for (size_t i = 0; i < parts.size(); ++i)
        parts[i].resize(static_cast<size_t>(count) * row_[i]);
      pool.parallel_for(count, piece, [&](int64_t begin, int64_t end) {
        const auto at = [&](size_t i) {
          return parts[i].data() + static_cast<size_t>(begin) * row_[i];
        };
        convert(first + begin, first + end, {at(0), at(1), at(2)});
      });
      for (size_t i = 0; i < stored_.size(); ++i)
        writer.write(index + i, static_cast<size_t>(first) * row_[i], parts[i]);
      on_bytes(static_cast<size_t>(count) * row_bytes());
    }
  }

 private:
  static int64_t round_up_rows(int64_t rows, int64_t unit) {
    return (rows + unit - 1) / unit * unit;
  }

  void convert(int64_t first, int64_t last, const MlxOutput& out) const {
    const TensorView& tensor = view();
    if (!format_ && tensor.dtype == dtype_) return read_rows(tensor, first, last, out.codes);
    const int64_t columns = tensor.columns();
    const auto count = static_cast<size_t>((last - first) * columns);
    std::vector<std::byte> buffer(static_cast<size_t>(last - first) *
                                  byte_size(tensor.dtype, columns));
    read_rows(tensor, first, last, buffer.data());
    std::vector<float> values(count);
    decode(tensor.dtype, buffer, values);
    try {
      encode_rows(values, buffer, out);
    } catch (const Error& error) {
      throw Error(error.kind(), "tensor {}, from row {} on: {}", printable(tensor.name), first,
                  error.what());
    }
  }

  // MLX formats quantise weights that were rounded to the plain weight type first.
  void encode_rows(std::vector<float>& values, std::vector<std::byte>& buffer,
                   const MlxOutput& out) const {
    const size_t size = byte_size(dtype_, std::ssize(values));
    if (!format_) return encode(dtype_, values, {out.codes, size});
    if (dtype_ != DType::kF32) {
      buffer.resize(size);
      encode(dtype_, values, buffer);
      decode(dtype_, buffer, values);
    }
    encode_mlx(*format_, dtype_, values, out);
  }

  const FolderTensor& tensor_;
  DType dtype_;
  std::optional<MlxFormat> format_;
  std::array<size_t, 3> row_{};  // bytes per row of each stored tensor
  std::vector<StoredTensor> stored_;
};

// Consecutive tensors that are written to one file.
struct Shard {
  size_t begin = 0, end = 0;
  std::string name;
};

std::vector<Shard> divide(const std::vector<Conversion>& conversions, uint64_t limit) {
  std::vector<Shard> shards(1);
  uint64_t size = 0;
  for (size_t i = 0; i < conversions.size(); ++i) {
    if (size > 0 && size + conversions[i].bytes() > limit) {
      shards.push_back({i, i, ""});
      size = 0;
    }
    size += conversions[i].bytes();
    shards.back().end = i + 1;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

void write_index(const PendingFolder& folder, const std::vector<Conversion>& conversions,
                 const std::vector<Shard>& shards) {
  std::map<std::string, std::string> files;
  size_t bytes = 0;
  int64_t elements = 0;
  for (const Shard& shard : shards)
    for (size_t i = shard.begin; i < shard.end; ++i) {
      for (const StoredTensor& tensor : conversions[i].stored()) files[tensor.name] = shard.name;
      bytes += conversions[i].bytes();
      elements += conversions[i].view().elements();
    }
  const Json index = {{"metadata", {{"total_size", bytes}, {"total_parameters", elements}}},
                      {"weight_map", files}};
  folder.write("model.safetensors.index.json", dump_json(index, 2) + "\n");
}

// Biases of the router decide between experts with close scores, and decay rates act over many
// tokens, so they are never rounded. Small tensors that published folders keep in f32 are not
// rounded either.
Conversion conversion_of(const FolderPlan& plan, size_t i) {
  constexpr std::string_view kExact[] = {"e_score_correction_bias", ".expert_bias", ".A_log"};
  constexpr std::string_view kKept[] = {".D", ".dt_bias", "linear_attn.norm.weight",
                                        "mamba.norm.weight", "mixer.norm.weight"};
  const FolderTensor& tensor = plan.tensors.tensors.at(i);
  const auto ends = [&](std::string_view end) { return tensor.view.name.ends_with(end); };
  const bool exact = std::ranges::any_of(kExact, ends) ||
                     (tensor.view.dtype == DType::kF32 && std::ranges::any_of(kKept, ends));
  return {tensor, exact ? DType::kF32 : plan.dtype, plan.mlx.formats.at(i)};
}

std::vector<Conversion> conversions_of(const FolderPlan& plan) {
  std::vector<Conversion> conversions;
  for (size_t i = 0; i < plan.tensors.tensors.size(); ++i)
    conversions.push_back(conversion_of(plan, i));
  return conversions;
}

// mlx-lm expects these models as the text part of a multi-part model.
void nest(Json& config, const char* class_name, const char* type) {
  const Json text = std::move(config);
  config = {{"architectures", {class_name}}, {"model_type", type}, {"text_config", text}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings",
                          "dtype", "torch_dtype"})
    if (text.contains(key)) config[key] = text[key];
}

// Adds full_attention_interval if every N-th layer is an attention layer.
void add_interval(Json& config) {
  if (config.contains("full_attention_interval")) return;
  const Json types = config.value("layer_types", Json::array());
  size_t interval = 1;
  while (interval <= types.size() && types[interval - 1] != "full_attention") ++interval;
  for (size_t i = 0; i < types.size(); ++i)
    if ((types[i] == "full_attention") != ((i + 1) % interval == 0)) return;
  config["full_attention_interval"] = interval;
}

// Adds Exaone's window pattern as a string, e.g. "LLLG", if layers repeat.
void spell_pattern(Json& config) {
  const auto types = config.find("layer_types");
  if (types == config.end() || config["sliding_window"].is_null()) return;
  std::string pattern;
  for (const Json& type : *types) pattern += type == "full_attention" ? 'G' : 'L';
  config["sliding_window_pattern"] = pattern.substr(0, pattern.find('G') + 1);
}

// Renames Granite's layer kinds. A model without experts has a single width.
void name_attention(Json& config) {
  const Json experts = config.value("num_local_experts", Json());
  if (experts.is_null() || experts == 0)
    config["intermediate_size"] = config["shared_intermediate_size"];
  for (Json& type : config["layer_types"])
    type = type == "linear_attention" || type == "mamba" ? "mamba" : "attention";
}

// Adds Mamba-2's inner width, which transformers derives.
void add_inner_width(Json& config) {
  config["intermediate_size"] =
      config.value("num_heads", int64_t{0}) * config.value("head_dim", int64_t{0});
}

// Nests Kimi Linear's recurrent layers under one key, with 1-based layer numbers; dense layers come
// first.
void nest_recurrent(Json& config) {
  if (!config.contains("rope_theta")) config["rope_theta"] = 10000.0;  // required but unused
  if (config.contains("linear_attn_config")) return;
  Json recurrent = Json::array(), attention = Json::array();
  const Json types = config.value("layer_types", Json::array());
  for (size_t i = 0; i < types.size(); ++i)
    (types[i] == "linear_attention" ? recurrent : attention).push_back(i + 1);
  config["linear_attn_config"] = {
      {"kda_layers", recurrent},
      {"full_attn_layers", attention},
      {"num_heads", config.value("linear_num_heads", Json())},
      {"head_dim", config.value("linear_head_dim", Json())},
      {"short_conv_kernel_size", config.value("linear_conv_kernel_dim", Json())}};
  int64_t dense = 0;
  for (const Json& type : config.value("mlp_layer_types", Json::array()))
    if (type == "dense") ++dense;
  if (!config.contains("first_k_dense_replace")) config["first_k_dense_replace"] = dense;
}

// Adds Exaone's list of mixture layers.
void name_mixtures(Json& config) {
  if (config.contains("is_moe_layer")) return;
  const int64_t dense = config.value("first_k_dense_replace", int64_t{0});
  Json layers = Json::array();
  for (int64_t i = 0; i < config.value("num_hidden_layers", int64_t{0}); ++i)
    layers.push_back(i >= dense);
  config["is_moe_layer"] = layers;
}

// A model type whose config.json differs between mlx-lm and transformers.
struct MlxConfigRow {
  std::string_view type;
  void (*change)(Json&);
};
constexpr MlxConfigRow kMlxConfigs[] = {
    {"llama4_text", [](Json& c) { nest(c, "Llama4ForConditionalGeneration", "llama4"); }},
    {"qwen3_next", add_interval},
    {"qwen3_5_text",
     [](Json& c) {
       add_interval(c);
       nest(c, "Qwen3_5ForConditionalGeneration", "qwen3_5");
     }},
    {"qwen3_5_moe_text",
     [](Json& c) {
       add_interval(c);
       nest(c, "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe");
     }},
    {"exaone4", spell_pattern},
    {"mamba2", add_inner_width},
    {"kimi_linear", nest_recurrent},
    {"exaone_moe", name_mixtures},
    {"granitemoehybrid", name_attention}};

void change_for_mlx(FolderPlan& plan) {
  for (const MlxConfigRow& row : kMlxConfigs)
    if (row.type == plan.type->type) row.change(plan.config);
}

}  // namespace

FolderPlan plan_folder(const ModelFile& file, const FolderOptions& options) {
  const TransformerConfig c = read_config(file);
  refuse_surplus_layers(file, c);
  refuse_unknown_tensors(file, c);
  FolderPlan plan;
  plan.type = &folder_type_of(file, c);
  plan.tensors = folder_tensors(file, c, *plan.type, options.kind);
  plan.dtype = options.dtype ? *options.dtype : usual_dtype(file, plan.tensors);
  plan.config = folder_config(file, c, *plan.type, float_row(plan.dtype).name);
  if (options.kind == FolderKind::kMlx) change_for_mlx(plan);
  if (file.container == Container::kGguf)
    plan.config[kCarriedMetadata] = carried_metadata(file.metadata);
  plan.mlx.formats.resize(plan.tensors.tensors.size());
  if (!options.quantize) return plan;
  VEERY_CHECK(options.kind == FolderKind::kMlx);
  plan.mlx = plan_mlx(plan.tensors, *plan.type, *options.quantize);
  if (plan.mlx.quantization.is_null()) return plan;
  for (const char* key : {"quantization", "quantization_config"})
    plan.config[key] = plan.mlx.quantization;
  return plan;
}

size_t planned_bytes(const FolderPlan& plan, size_t tensor) {
  return conversion_of(plan, tensor).bytes();
}

namespace {

// Writes one file of weights.
class ShardWriter {
 public:
  ShardWriter(const ModelFile& file, std::span<const Conversion> conversions, ThreadPool& pool,
              const FolderOptions& options)
      : file_(file), conversions_(conversions), pool_(pool), options_(options) {
    for (const Conversion& conversion : conversions) total_ += conversion.bytes();
  }

  void write(const Shard& shard, const PendingFolder& folder) {
    std::vector<StoredTensor> stored;
    for (size_t i = shard.begin; i < shard.end; ++i)
      stored.insert(stored.end(), conversions_[i].stored().begin(), conversions_[i].stored().end());
    const bool mlx = options_.kind == FolderKind::kMlx;
    SafetensorsWriter writer(folder.file(shard.name), stored, {{"format", mlx ? "mlx" : "pt"}});
    size_t index = 0;
    for (size_t i = shard.begin; i < shard.end; ++i) {
      const TensorView& view = conversions_[i].view();
      conversions_[i].write(writer, index, pool_, [&](size_t bytes) {
        done_ += bytes;
        if (options_.progress) options_.progress(done_, total_, view.name);
      });
      index += conversions_[i].stored().size();
      file_.release(view);
    }
    writer.commit();
  }

 private:
  const ModelFile& file_;
  std::span<const Conversion> conversions_;
  ThreadPool& pool_;
  const FolderOptions& options_;
  size_t total_ = 0, done_ = 0;
};

}  // namespace

void write_folder(const ModelFile& file, const FolderPlan& plan, const std::string& path,
                  ThreadPool& pool, const FolderOptions& options) {
  const std::vector<Conversion> conversions = conversions_of(plan);
  const std::vector<Shard> shards = divide(conversions, options.shard_bytes);
  PendingFolder folder(path);
  file.checked([&] {
    ShardWriter writer(file, conversions, pool, options);
    for (const Shard& shard : shards) writer.write(shard, folder);
    if (options.kind == FolderKind::kMlx || shards.size() > 1)
      write_index(folder, conversions, shards);
    folder.write("config.json", dump_json(plan.config, 2) + "\n");
    write_text_files(file, folder);
  });
  folder.commit();
}

}  // namespace veery
