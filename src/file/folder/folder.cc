#include "file/folder/folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/folder/mlx.h"
#include "file/folder/row_sources.h"
#include "file/folder/safetensors.h"
#include "file/folder/ternary.h"

namespace veery {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

std::string file_of_tensor(JsonReader& index, std::string_view tensor, const std::string& path) {
  if (index.peek() != JsonReader::Kind::kString)
    throw Error(ErrorKind::kFormat, "{}: the file of tensor '{}' is not a string", path,
                printable(tensor));
  std::string name(index.string());
  if (name.empty() || name.find_first_of("/\\") != std::string::npos || name.starts_with('.') ||
      name.find('\0') != std::string::npos)
    throw Error(ErrorKind::kFormat,
                "{}: the file of tensor '{}' is '{}', expected a name in the folder", path,
                printable(tensor), printable(name));
  return name;
}

ShardIndex find_shards(const std::string& folder) {
  // As in transformers: an index next to the single file is a leftover of another export.
  if (path_exists(folder + "/model.safetensors")) return {{"model.safetensors"}, {}};
  const std::string index = folder + "/" + kIndexName;
  if (path_exists(index)) return parse_shard_index(MappedFile(index, kIndexFile), index);
  ShardIndex shards;
  for (std::string& name : list_folder(folder))
    if (name.ends_with(".safetensors") && !name.starts_with("adapter") &&
        !name.starts_with("consolidated") && !name.starts_with('.'))
      shards.files.push_back(std::move(name));
  if (shards.files.empty())
    throw Error(ErrorKind::kNotFound, "{}: has no *.safetensors, expected a folder with weights",
                folder);
  return shards;
}

// All tensors of the folder by name, with the file that contains each.
class Pool {
 public:
  void add(const SafetensorsFile& file, const std::map<std::string, std::string>& owner_of,
           const std::string& name) {
    for (const StoredTensor& tensor : file.tensors) {
      if (!owner_of.empty()) {
        const auto owner = owner_of.find(tensor.name);
        if (owner == owner_of.end() || owner->second != name) continue;
      }
      const auto [entry, is_new] = tensors_.emplace(tensor.name, tensor);
      if (!is_new)
        throw Error(ErrorKind::kFormat,
                    "{}: tensor '{}' also appears in another file of the folder", file.path,
                    printable(tensor.name));
    }
  }
  const StoredTensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, StoredTensor>& all() const { return tensors_; }

 private:
  std::map<std::string, StoredTensor> tensors_;
};

Fp8Blocks fp8_blocks(const Json& config) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return {};
  const auto size = quantization->find("weight_block_size");
  if (size == quantization->end() || size->is_null()) return {};
  const auto valid = [](const Json& n) {
    return n.is_number_unsigned() && n.get<uint64_t>() > 0 && n.get<uint64_t>() < (1U << 24);
  };
  if (!size->is_array() || size->size() != 2 || !valid((*size)[0]) || !valid((*size)[1]))
    throw Error(ErrorKind::kFormat, "config.json: weight_block_size is {}, expected two sizes",
                printable(dump_json(*size)));
  return {(*size)[0].get<int64_t>(), (*size)[1].get<int64_t>()};
}

// Returns a tensor of the same layer: "x.scales" for "x.weight"; nullptr if there is none.
const StoredTensor* sibling(const StoredTensor& weight, const char* kind, const Pool& pool) {
  constexpr std::string_view kWeight = ".weight";
  if (!weight.name.ends_with(kWeight)) return nullptr;
  return pool.find(weight.name.substr(0, weight.name.size() - kWeight.size()) + kind);
}

// Returns whether `tensor` holds the scales or biases of a quantised weight.
bool is_scale_or_bias(const StoredTensor& tensor, const Pool& pool) {
  for (const std::string_view kind : {".scales", ".biases"})
    if (tensor.name.ends_with(kind)) {
      const std::string layer = tensor.name.substr(0, tensor.name.size() - kind.size());
      const StoredTensor* codes = pool.find(layer + ".weight");
      return codes != nullptr && codes->type == StoredType::kU32;
    }
  return false;
}

// gpt-oss stores "x" as "x_blocks" and "x_scales".
constexpr std::string_view kBlocks = "_blocks";

const StoredTensor* paired_scales(const StoredTensor& blocks, const Pool& pool) {
  if (!blocks.name.ends_with(kBlocks)) return nullptr;
  return pool.find(blocks.name.substr(0, blocks.name.size() - kBlocks.size()) + "_scales");
}

TensorView make_packed_view(const StoredTensor& codes, const StoredTensor& scales, const Pool& pool,
                            const Json& config) {
  const std::string layer = codes.name.substr(0, codes.name.rfind('.'));
  const auto format = mlx_format(config, layer);
  if (!format)
    throw Error(ErrorKind::kFormat,
                "config.json: missing quantization settings, but '{}' has scales",
                printable(codes.name));
  return make_mlx_view(codes, scales, sibling(codes, ".biases", pool), *format);
}

// Returns a view of `tensor`, or nullopt for scales and biases that belong to another tensor.
std::optional<TensorView> make_view(const StoredTensor& tensor, const Pool& pool,
                                    const Fp8Blocks& blocks, const Json& config) {
  if (is_scale_or_bias(tensor, pool)) return std::nullopt;
  const StoredTensor* scales = sibling(tensor, ".scales", pool);
  if (tensor.type == StoredType::kU32 && scales != nullptr)
    return make_packed_view(tensor, *scales, pool, config);
  if (const StoredTensor* paired = paired_scales(tensor, pool))
    return make_mxfp4_view(tensor.name.substr(0, tensor.name.rfind(kBlocks)), tensor, *paired);
  if (tensor.type == StoredType::kU8 && has_ternary_weights(config))
    if (const StoredTensor* scale = pool.find(tensor.name + "_scale"))
      return make_ternary_view(tensor, *scale, config);
  TensorView view{tensor.name, DType::kF32, tensor.shape, tensor.data};
  if (view.shape.empty()) view.shape = {1};
  if (tensor.data.empty()) return std::nullopt;
  if (tensor.type == StoredType::kF8_E4M3 || tensor.type == StoredType::kF8_E5M2) {
    const StoredTensor* scale = pool.find(tensor.name + "_scale_inv");
    if (scale == nullptr) scale = pool.find(tensor.name + "_scale");
    return make_fp8_view({tensor.name, tensor.type, view.shape, tensor.data}, scale, blocks);
  }
  const auto dtype = to_dtype(tensor.type);
  if (!dtype) return std::nullopt;
  view.dtype = *dtype;
  const auto size = static_cast<uintptr_t>(byte_size(tensor.type));
  if (reinterpret_cast<uintptr_t>(tensor.data.data()) % size != 0) {
    view.source = make_copy(tensor.data, byte_size(*dtype, view.columns()));
    view.data = {};
  }
  return view;
}

void refuse_unknown_quantization(const Json& config, const std::string& path) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return;
  const auto named = quantization->find("quant_method");
  const std::string method =
      named != quantization->end() && named->is_string() ? named->get<std::string>() : "";
  if (has_ternary_weights(config)) return;
  constexpr std::string_view kKnown[] = {"",         "fp8",  "fbgemm_fp8", "compressed-tensors",
                                         "modelopt", "mxfp4"};
  if (std::ranges::find(kKnown, method) == std::end(kKnown))
    throw Error(ErrorKind::kUnsupported, "{}: quant_method is '{}', expected fp8, bitnet or none",
                path, printable(method));
}

}  // namespace

ShardIndex parse_shard_index(const JsonText& text, const std::string& path) {
  ShardIndex shards;
  JsonReader index(text, path);
  index.begin_object();
  for (std::string_view key; index.next_key(key);) {
    if (key != "weight_map" || index.peek() != JsonReader::Kind::kObject) {
      index.skip();
      continue;
    }
    index.begin_object();
    for (std::string_view tensor; index.next_key(tensor);)
      shards.owner_of.insert_or_assign(std::string(tensor), file_of_tensor(index, tensor, path));
  }
  index.finish();
  if (shards.owner_of.empty())
    throw Error(ErrorKind::kFormat, "{}: has no weight_map, expected tensor names and files", path);
  std::set<std::string> files;
  for (const auto& [tensor, file] : shards.owner_of) files.insert(file);
  shards.files.assign(files.begin(), files.end());
  return shards;
}

std::vector<std::string> weight_files(const std::string& folder) {
  return find_shards(folder).files;
}

namespace {

Json parse_object(std::string_view text, const std::string& path) {
  Json json = parse_json(text, path);
  if (!json.is_object())
    throw Error(ErrorKind::kFormat, "{}: is a JSON {}, expected an object", path, json.type_name());
  return json;
}

}  // namespace

Json read_json_file(const std::string& path) {
  return parse_object(MappedFile(path, kConfigFile).text(), path);
}

Json read_python_json(const std::string& path) {
  const MappedFile file(path, kConfigFile);
  return parse_object(with_named_numbers(file.text()), path);
}

std::string with_named_numbers(std::string_view text) {
  constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool quoted = false;
  while (!text.empty()) {
    const auto name = std::ranges::find_if(
        kNames, [&](std::string_view n) { return !quoted && text.starts_with(n); });
    if (name != std::end(kNames)) {
      result += fmt::format(R"({{"__float__": "{}"}})", *name);
      text.remove_prefix(name->size());
      continue;
    }
    const size_t taken = quoted && text[0] == '\\' ? std::min<size_t>(2, text.size()) : 1;
    quoted ^= text[0] == '"';
    result += text.substr(0, taken);
    text.remove_prefix(taken);
  }
  return result;
}

ModelFile open_folder(const std::string& path) {
  ModelFile model;
  model.path = path;
  model.container = Container::kFolder;
  const std::string config_path = path + "/config.json";
  auto config = std::make_shared<Json>(read_python_json(config_path));
  refuse_unknown_quantization(*config, config_path);
  const ShardIndex shards = find_shards(path);
  Pool pool;
  for (const std::string& name : shards.files) {
    SafetensorsFile file = open_safetensors(path + "/" + name);
    pool.add(file, shards.owner_of, name);
    model.mappings.push_back(std::move(file.mapping));
  }
  for (const auto& [tensor, file] : shards.owner_of)
    if (pool.find(tensor) == nullptr)
      throw Error(ErrorKind::kFormat, "{}/{}: missing tensor '{}', which {} lists", path, file,
                  printable(tensor), kIndexName);
  const Fp8Blocks blocks = fp8_blocks(*config);
  for (const auto& [name, tensor] : pool.all())
    if (auto view = make_view(tensor, pool, blocks, *config))
      model.tensors.push_back(std::move(*view));
  model.config = std::move(config);
  return model;
}

}  // namespace veery
