// model.h: a loaded model: weights, tokenizer, chat templates and the graph of its definition.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/executor.h"
#include "file/model_file.h"
#include "kernels/backend.h"
#include "model/arch/entry.h"
#include "model/config.h"
#include "plan/params.h"
#include "plan/placement.h"
#include "plan/plan.h"
#include "text/answer/answer_format.h"
#include "text/chat/chat_templates.h"
#include "text/chat/control_guard.h"
#include "text/tokenizer.h"

namespace veery {

/// The largest context that users may request, in positions.
inline constexpr int32_t kMostContext = 1 << 30;

struct LoadOptions {
  /// Threads and devices that the model shares with others; nullptr: the model makes its own,
  /// with `threads`.
  std::shared_ptr<Executor> executor;
  int threads = 0;  ///< of the new executor; 0: the cores this process may use
  /// Positions of a sequence; 0: the model's own, with the default entry at most 4096.
  int32_t context = 0;
  bool clip_context = false;  ///< reduce a context that exceeds the model's instead of throwing
  int32_t chunk = 256;        ///< most tokens of a prefill chunk
  /// The default of programs for `chunk` with a GPU, which needs many rows to be fully used.
  static constexpr int32_t kBackendChunk = 2048;
  /// Weights get sizes and layouts but no values: tensors are not read and memory is not touched.
  /// Such a model serves to measure memory and cannot be run.
  bool layout_only = false;
  bool exact = false;  ///< f32 activations and an f32 cache
  bool fuse = true;
  /// Replaces the model's chat templates: the name of one of them, or the source of another.
  std::optional<std::string> chat_template;
  /// Whether control tokens in the texts of a conversation are parsed as tokens or stay text.
  bool parse_special = false;
  std::optional<DType> cache_keys;    ///< StateOptions::keys; absent: bf16, f32 if exact
  std::optional<DType> cache_values;  ///< StateOptions::values, with the same default
  std::optional<Target> target;       ///< absent: the best of this machine
  /// Devices for weights, caches and plans, in the order of layers; empty: the CPU. Several devices
  /// form a pipeline and share the layers evenly by the bytes of their weights.
  std::vector<std::shared_ptr<Backend>> backends;
  /// Number of layers on `backends`: the last ones and the output head. Earlier layers and their
  /// caches stay on the CPU. Absent, or the model's number of layers: all; 0: the CPU alone.
  std::optional<int32_t> backend_layers;
  /// Makes the entry of the model; absent: decode_entry().
  std::function<Entry(ModelFile&, const TransformerConfig&)> entry;
  ParamStore::Progress progress;
  /// Called with a line of text for each oddity of the model that does not prevent loading.
  std::function<void(const std::string& what)> warn;
};

/// A loaded model, immutable. Sessions and encoders refer to it; several threads may use them, each
/// its own, as runs take turns (Executor).
class Model {
 public:
  /// Throws kNotFound, kIo, kFormat or kUnsupported; kInput if options.context exceeds what the
  /// model was trained for; FileChanged if a file changes meanwhile.
  explicit Model(const std::string& path, const LoadOptions& options = {});

  /// Changes what a file says before its definition is traced.
  using Change = std::function<void(ModelFile&, TransformerConfig&)>;
  /// Loads a variant of `base`, which must outlive this model, as if its file had been changed by
  /// `change`. Only tensors that `change` replaces are loaded; the others are shared. `entry`:
  /// LoadOptions::entry; empty: that of `base`. Throws as the other constructor does.
  Model(const Model& base, const Change& change,
        std::function<Entry(ModelFile&, const TransformerConfig&)> entry = {});

  /// Whether the files of weights that are read during runs are unchanged since loading; if not,
  /// every run throws FileChanged.
  bool is_unchanged() const { return std::ranges::all_of(params_, &ParamStore::is_unchanged); }

  const std::string& path() const { return file_.path; }
  const ModelFile& file() const { return file_; }
  const TransformerConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// nullptr if the file has none.
  const ChatTemplates* chat_templates() const { return templates_.get(); }
  /// The template for conversations without tools, or nullptr.
  const ChatTemplate* chat_template() const {
    return templates_ ? &templates_->pick(/*tools=*/false) : nullptr;
  }
  /// The templates of its file, regardless of LoadOptions::chat_template.
  const ChatTemplateSources& chat_template_sources() const { return template_sources_; }
  const ControlGuard& control_guard() const { return *guard_; }
  /// The format of reasoning and tool calls in its answers, found from its template.
  const AnswerFormat& answer_format() const;
  const LoadOptions& options() const { return options_; }
  Executor& executor() const { return *options_.executor; }
  int threads() const { return executor().threads(); }
  Target target() const { return target_; }
  ThreadPool& pool() const { return executor().pool(); }
  /// The devices of its layers, in order.
  const Placement& places() const { return places_; }
  /// The backend of the last place, which has the output head.
  Backend& backend() const { return *places_.back().backend; }
  /// The memory pools of its devices that have memory of their own, one for each device.
  std::vector<MemoryPool*> memory_pools() const;
  /// The sum over memory_pools(); absent if there are none.
  std::optional<DeviceMemory> device_memory() const;
  /// Whether all of it runs on the CPU.
  bool runs_on_host() const { return places_.size() == 1 && backend().runs_on_host(); }
  /// Bytes of its weights in memory, without those that are read from the mapped file.
  size_t weight_bytes() const {
    size_t bytes = 0;
    for (const ParamStore& params : params_) bytes += params.bytes();
    return bytes;
  }
  /// The weights of a place.
  const ParamStore& params(size_t place) const { return params_[place]; }
  const Entry& entry() const { return entry_; }
  double load_seconds() const { return load_seconds_; }

 private:
  void load(const LoadOptions& options);
  void load_changed(const Model& base, const Change& change);
  void load_templates();
  void define();
  void find_places();
  int32_t split_layer(int32_t first, size_t part, size_t parts) const;
  void load_params(const ParamStore::Progress& progress);
  void warn_of_unused() const;

  LoadOptions options_;
  Target target_;
  ModelFile file_;
  TransformerConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplateSources template_sources_;
  std::shared_ptr<const ChatTemplates> templates_;
  std::shared_ptr<const ControlGuard> guard_;
  Entry entry_;
  Placement places_;
  std::vector<ParamStore> params_;  ///< of each place
  double load_seconds_ = 0;
};

/// Loads the tokenizer of a GGUF file or a folder, which need not have weights, or of a tokenizer
/// file such as tokenizer.json. A folder without a tokenizer gets one that rejects text; ids can
/// still be used.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// The source of the standard chat template of a file or a folder, or of the files beside a
/// tokenizer; empty if there is none.
std::string chat_template_source(const std::string& path);
/// All of its chat templates.
ChatTemplateSources load_template_sources(const std::string& path);

/// Facts about a file for `veery show`. The file is opened and checked; its weights are not read.
struct ModelSummary {
  int64_t parameters = 0;
  size_t weight_bytes = 0;
  std::map<std::string, int> types;  ///< name of a type -> number of tensors
};
ModelSummary summarize(const ModelFile& file);

/// The context of a model loaded with `options`, in positions. Throws kInput if it exceeds the
/// context that the model was trained for, unless all states of a sequence have a fixed size.
int32_t run_context(const TransformerConfig& config, const LoadOptions& options);

/// Bytes of the caches of one sequence of `context` positions.
size_t cache_bytes(const TransformerConfig& config, int32_t context, DType keys, DType values);

/// Bytes of the recurrent states of one sequence.
size_t state_bytes(const TransformerConfig& config);

}  // namespace veery
