#include "engine/model.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "device/host_device.h"
#include "file/folder/find_model.h"
#include "file/folder/folder.h"
#include "file/gguf/gguf.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "model/arch/registry.h"
#include "plan/split.h"
#include "text/chat/chat_text.h"
#include "text/format/tokenizer_folder.h"
#include "text/no_tokenizer.h"

namespace veery {
namespace {

constexpr int32_t kDefaultContext = 4096;

Target best_target(const std::optional<Target>& wanted) {
  const std::vector<Target> targets = supported_targets();
  if (!wanted) return targets.front();
  const Target needed = *wanted == Target::kAmxEmulated ? vectors_of(*wanted) : *wanted;
  if (std::find(targets.begin(), targets.end(), needed) == targets.end())
    throw Error(ErrorKind::kUnsupported, "this machine has no {}", name(needed));
  return *wanted;
}

void check_vocabulary(const Tokenizer& tokenizer, const TransformerConfig& config) {
  if (tokenizer.size() > config.vocab)
    throw Error(ErrorKind::kFormat, "the tokenizer has {} tokens, the embedding {} rows",
                tokenizer.size(), config.vocab);
}

bool same_values(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.data.data() == b.data.data() &&
         a.data.size() == b.data.size() && a.source == b.source;
}

}  // namespace

Model::Model(const std::string& path, const LoadOptions& options)
    : options_(options), target_(best_target(options.target)) {
  const double start = seconds_now();
  if (!options_.executor) options_.executor = std::make_shared<Executor>(options.threads);
  file_ = open_model(path);
  file_.checked([&] { load(options); });
  load_seconds_ = seconds_now() - start;
}

void Model::load(const LoadOptions& options) {
  config_ = read_config(file_);
  options_.context = run_context(config_, options);
  config_.long_context = options_.context > config_.positions.rope.original_context;
  config_.sparse = config_.is_sparse_at(options_.context);
  options_.chunk = std::clamp(options.chunk, 1, options_.context);
  for (auto* type : {&options_.cache_keys, &options_.cache_values})
    if (!*type) *type = options.exact ? DType::kF32 : DType::kBF16;
  const bool folder = file_.container == Container::kFolder;
  tokenizer_ = folder ? load_tokenizer(file_.path) : make_tokenizer(file_);
  // A folder's tokenizer may have tokens, for example of images, that are not in the embedding.
  if (file_.container == Container::kGguf) check_vocabulary(*tokenizer_, config_);
  guard_ = std::make_shared<ControlGuard>(tokenizer_->control_tokens());
  load_templates();

  define();
  refuse_surplus_layers(file_, config_);
  warn_of_unused();
  file_.metadata.drop_arrays();
  file_.release_all();  // the vocabulary has been copied
  find_places();
  load_params(options.progress);
  file_.release_all();  // read-ahead has mapped more pages than were read
}

Model::Model(const Model& base, const Change& change,
             std::function<Entry(ModelFile&, const TransformerConfig&)> entry)
    : options_(base.options_),
      target_(base.target_),
      file_(base.file_),
      config_(base.config_),
      tokenizer_(base.tokenizer_),
      template_sources_(base.template_sources_),
      templates_(base.templates_),
      guard_(base.guard_) {
  const double start = seconds_now();
  if (entry) options_.entry = std::move(entry);
  file_.checked([&] { load_changed(base, change); });
  load_seconds_ = seconds_now() - start;
}

void Model::load_changed(const Model& base, const Change& change) {
  change(file_, config_);
  define();
  std::set<std::string_view> loaded;
  for (const Node& node : base.entry_.graph.nodes())
    if (node.op == op::kParam) loaded.insert(node.name);
  std::vector<std::string> kept;
  for (const Node& node : entry_.graph.nodes()) {
    if (node.op != op::kParam || !loaded.contains(node.name)) continue;
    const TensorView* now = file_.find(node.name);
    const TensorView* before = base.file_.find(node.name);
    if (now != nullptr && before != nullptr && same_values(*now, *before) && has_shape(*now, node))
      kept.push_back(node.name);
  }
  find_places();
  for (size_t place = 0; place < places_.size(); ++place)
    params_.emplace_back().borrow(base.params_[place], kept);
  load_params({});
}

void Model::load_templates() {
  template_sources_ = file_.container == Container::kFolder ? load_chat_templates(file_.path)
                                                            : chat_templates_of(file_.metadata);
  ChatTemplateSources sources = options_.chat_template
                                    ? chosen_templates(template_sources_, *options_.chat_template)
                                    : template_sources_;
  if (sources.standard.empty() && sources.named.empty()) return;
  templates_ = std::make_shared<ChatTemplates>(std::move(sources),
                                               special_token_variables(*tokenizer_), file_.path);
}

const AnswerFormat& Model::answer_format() const {
  static const AnswerFormat kNone;
  return templates_ ? templates_->answer_format() : kNone;
}

void Model::define() {
  entry_ = options_.entry ? options_.entry(file_, config_) : decode_entry(file_, config_);
}

// Makes the places: the CPU alone, or one or more devices in a pipeline, perhaps after the CPU.
void Model::find_places() {
  for (const auto& backend : options_.backends) VEERY_CHECK(backend != nullptr);
  if (options_.backend_layers == 0) options_.backends.clear();
  if (options_.backend_layers && *options_.backend_layers < 0)
    throw Error(ErrorKind::kInput, "{} layers are to be on the device, expected 0 or more",
                *options_.backend_layers);
  const int32_t layers = options_.backend_layers.value_or(config_.layers);
  const int32_t first = std::max(config_.layers - layers, 0);  // first layer on a device
  const auto add = [&](Backend& backend, int32_t first_layer) {
    places_.push_back(
        {&backend, first_layer, options_.layout_only ? &host_device() : &backend.device()});
  };
  if (options_.backends.empty() || first > 0) add(executor().cpu(target_), 0);
  for (size_t i = 0; i < options_.backends.size(); ++i) {
    const int32_t from = i == 0 ? first : split_layer(first, i, options_.backends.size());
    if (i > 0 && from <= places_.back().first_layer) continue;  // more devices than layers
    add(*options_.backends[i], from);
  }
}

// Returns the first layer of part `part` when the layers from `first` on are divided into `parts`
// parts with about the same bytes of weights.
int32_t Model::split_layer(int32_t first, size_t part, size_t parts) const {
  std::vector<double> bytes(static_cast<size_t>(config_.layers));
  for (const Node& node : entry_.graph.nodes()) {
    const int32_t layer = node.op == op::kParam ? layer_of(node.name) : -1;
    if (layer < first || layer >= config_.layers) continue;
    if (const TensorView* tensor = file_.find(node.name))
      bytes[static_cast<size_t>(layer)] += static_cast<double>(tensor->bytes());
  }
  const double wanted = std::reduce(bytes.begin(), bytes.end()) * static_cast<double>(part) /
                        static_cast<double>(parts);
  double before = 0;
  for (int32_t layer = first; layer < config_.layers; ++layer) {
    const double own = bytes[static_cast<size_t>(layer)];
    if (before + own / 2 >= wanted) return layer;
    before += own;
  }
  return config_.layers;
}

// Loads for each place the weights that its part of the graph names.
void Model::load_params(const ParamStore::Progress& progress) {
  params_.resize(places_.size());
  const auto load = [&](size_t place, const Graph& graph) {
    Backend& backend = *places_[place].backend;
    if (options_.layout_only) return params_[place].lay_out(file_, graph, backend);
    params_[place].load(file_, graph, pool(), backend, progress);
  };
  if (places_.size() == 1) return load(0, entry_.graph);
  std::vector<Value> roots;
  for (const auto& [name, value] : entry_.roots) roots.push_back(value);
  std::vector<Graph> parts(places_.size());
  Graph rest = entry_.graph;
  for (size_t place = places_.size() - 1; place > 0; --place) {
    SplitGraph split = veery::split(rest, roots, places_[place].first_layer);
    parts[place] = std::move(split.back);
    rest = std::move(split.front);
    roots = std::move(split.crossing);
  }
  parts[0] = std::move(rest);
  for (size_t place = 0; place < places_.size(); ++place) load(place, parts[place]);
}

std::vector<MemoryPool*> Model::memory_pools() const {
  std::vector<MemoryPool*> pools;
  for (const Place& place : places_)
    if (MemoryPool* const pool = place.backend->device().pool(); pool != nullptr)
      pools.push_back(pool);
  return pools;
}

std::optional<DeviceMemory> Model::device_memory() const {
  const std::vector<MemoryPool*> pools = memory_pools();
  if (pools.empty()) return {};
  DeviceMemory sum;
  for (const MemoryPool* const pool : pools) {
    const DeviceMemory own = pool->memory();
    sum.active += own.active;
    sum.peak += own.peak;
    sum.cached += own.cached;
  }
  return sum;
}

void Model::warn_of_unused() const {
  if (!options_.warn) return;
  std::vector<std::string> names;
  for (const std::string& name : unused_tensors(file_, config_, entry_.graph).unknown)
    names.push_back(printable(name));
  if (names.empty()) return;
  options_.warn(fmt::format("{}: the model does not use {}: its answers may be wrong", file_.path,
                            some_of(names)));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& meant) {
  const std::string path = find_model(meant, ModelPart::kText);
  if (is_tokenizer_file(path)) return load_tokenizer_folder(path);
  if (!is_folder(path)) return make_tokenizer(open_model_file(path));
  try {
    return load_tokenizer_folder(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return make_no_tokenizer(error.what());
  }
}

ChatTemplateSources load_template_sources(const std::string& meant) {
  const std::string path = find_model(meant, ModelPart::kText);
  if (is_folder(path)) return load_chat_templates(path);
  if (is_tokenizer_file(path))
    return load_chat_templates(std::filesystem::path(path).parent_path().string());
  return chat_templates_of(open_model_file(path).metadata);
}

std::string chat_template_source(const std::string& meant) {
  return load_template_sources(meant).standard;
}

ModelSummary summarize(const ModelFile& file) {
  ModelSummary summary;
  for (const TensorView& tensor : file.tensors) {
    summary.parameters += tensor.elements();
    summary.weight_bytes += tensor.bytes();
    ++summary.types[std::string(info(tensor.dtype).name)];
  }
  return summary;
}

namespace {

// Traces the graph of a model without its weights.
void trace_states(Graph& graph, const TransformerConfig& config) {
  Trace trace(graph, TraceMode::kServe, Weights(weight_rules(config.architecture)));
  find_architecture(config.architecture).define(trace, config);
}

// Whether all layers are recurrent. A sequence then needs the same memory at any length, so it may
// exceed the context that the model was trained for.
bool is_endless(const TransformerConfig& config) {
  return config.recurrent.mixer != Mixer::kNone &&
         std::ranges::count(config.recurrent.layers, false) == 0 &&
         !find_architecture(config.architecture).parallel_mixers;
}

}  // namespace

int32_t run_context(const TransformerConfig& config, const LoadOptions& options) {
  if (options.context < 0)
    throw Error(ErrorKind::kInput, "context is {}, expected 1 or more", options.context);
  if (options.context > config.context && is_endless(config)) {
    if (options.context <= kMaxSize) return options.context;
    throw Error(ErrorKind::kInput, "context is {}, expected {} at most", options.context, kMaxSize);
  }
  if (options.context > config.context && options.clip_context) return config.context;
  if (options.context > config.context)
    throw Error(ErrorKind::kInput, "context is {}, the model was trained for {}", options.context,
                config.context);
  if (options.context > 0) return options.context;
  return options.entry ? config.context : std::min(config.context, kDefaultContext);
}

size_t cache_bytes(const TransformerConfig& config, int32_t context, DType keys, DType values) {
  Graph graph;
  TransformerConfig used = config;
  used.sparse = config.is_sparse_at(context);
  trace_states(graph, used);
  return StateLayout(graph, {.keys = keys,
                             .values = values,
                             .context = context,
                             .rows = std::min(LoadOptions{}.chunk, context)})
      .bytes();
}

size_t state_bytes(const TransformerConfig& config) {
  Graph graph;
  trace_states(graph, config);
  size_t bytes = 0;
  for (const Node& node : graph.nodes())
    if (node.op == op::kState && node.as<StateAttr>().kind == StateKind::kBlock)
      bytes += static_cast<size_t>(node.shape().rows().size * node.shape().cols()) * sizeof(float);
  return bytes;
}

}  // namespace veery
