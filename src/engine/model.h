// model.h: a loaded model: weights, tokenizer, template, and the graph made of its definition.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

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

/// The most positions that users may ask for.
inline constexpr int32_t kMostContext = 1 << 30;

struct LoadOptions {
  int threads = 0;  ///< 0: the cores this process may use
  /// Positions of a sequence; 0: the model's, where caches are kept at most 4096.
  int32_t context = 0;
  bool clip_context = false;  ///< a longer one than the model was trained for becomes that
  int32_t chunk = 256;        ///< most tokens of one run of a prompt
  /// What programs take for `chunk` with a backend: GPUs are filled by many rows only.
  static constexpr int32_t kBackendChunk = 2048;
  /// The weights have their sizes and layouts, but no values: neither the file's tensors are read
  /// nor is memory touched. Such a model tells what a loaded one takes, and cannot be run.
  bool layout_only = false;
  bool exact = false;  ///< f32 activations and an f32 cache
  bool fuse = true;
  /// In place of the model's chat templates: the name of one of them, or a source.
  std::optional<std::string> chat_template;
  /// Control tokens in the texts of a conversation are tokens; otherwise they are text.
  bool parse_special = false;
  std::optional<DType> cache_keys;    ///< StateOptions::keys; absent: bf16, f32 if exact
  std::optional<DType> cache_values;  ///< the same for values
  std::optional<Target> target;       ///< absent: the best of this machine
  /// Devices that have the weights and caches and run the plans, in the order of layers; empty: the
  /// CPU. Several share the layers evenly, by the bytes of their weights (a pipeline).
  std::vector<std::shared_ptr<Backend>> backends;
  /// Layers that these have, the last ones, with the head; those before them are on the CPU, with
  /// their caches. Absent, or as many as there are: all; 0: the CPU alone.
  std::optional<int32_t> backend_layers;
  /// What is made of the model; absent: decode_entry().
  std::function<Entry(ModelFile&, const TransformerConfig&)> entry;
  ParamStore::Progress progress;
  /// Called with each thing that is odd about the model, though it can be loaded: one line.
  std::function<void(const std::string& what)> warn;
};

/// Immutable after loading. Runners and encoders refer to it; plans of several of them run one at a
/// time, as they share its threads.
class Model {
 public:
  /// Throws kNotFound, kIo, kFormat or kUnsupported; kInput if options.context exceeds what the
  /// model was trained for; FileChanged if a file changes meanwhile.
  explicit Model(const std::string& path, const LoadOptions& options = {});

  /// Changes what a file says before its definition is traced.
  using Change = std::function<void(ModelFile&, TransformerConfig&)>;
  /// The model of `base`, which must outlive this one, as it would be if its file said otherwise:
  /// only the tensors that `change` replaces are loaded. `entry`: LoadOptions::entry, where it is
  /// to be another than that of `base`. Throws as above.
  Model(const Model& base, const Change& change,
        std::function<Entry(ModelFile&, const TransformerConfig&)> entry = {});

  /// Whether the weights that are read from the file during runs are those that were loaded; if
  /// not, every run throws FileChanged.
  bool is_unchanged() const { return std::ranges::all_of(params_, &ParamStore::is_unchanged); }

  const std::string& path() const { return file_.path; }
  const ModelFile& file() const { return file_; }
  const TransformerConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// nullptr if the file has none.
  const ChatTemplates* chat_templates() const { return templates_.get(); }
  /// The standard one of them, or nullptr.
  const ChatTemplate* chat_template() const {
    return templates_ ? &templates_->pick(/*tools=*/false) : nullptr;
  }
  /// The templates of its file, whatever options.chat_template chose.
  const ChatTemplateSources& chat_template_sources() const { return template_sources_; }
  const ControlGuard& control_guard() const { return *guard_; }
  /// How it writes reasoning and tool calls, as its template shows.
  const AnswerFormat& answer_format() const;
  const LoadOptions& options() const { return options_; }
  int threads() { return pool_.size(); }
  Target target() const { return target_; }
  ThreadPool& pool() { return pool_; }
  /// Where its layers run.
  const Placement& places() const { return places_; }
  /// That of the last place, which has the head.
  Backend& backend() const { return *places_.back().backend; }
  /// The memory that its devices have of their own, one for each device.
  std::vector<MemoryPool*> memory_pools() const;
  /// The sum over these; empty if there are none.
  std::optional<DeviceMemory> device_memory() const;
  /// Whether all of it runs on the CPU.
  bool runs_on_host() const { return places_.size() == 1 && backend().runs_on_host(); }
  /// Bytes of its weights in memory, without those that stay in the file.
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
  ThreadPool pool_;
  Target target_;
  std::unique_ptr<Backend> cpu_;
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

/// The tokenizer of a GGUF file or a folder, which needs no weights, or of a tokenizer.json (or
/// another file of a tokenizer) alone. Where no file of a folder says how text becomes tokens, one
/// that takes no text: ids can still be fed.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// The source of the standard chat template of a file or a folder, or of the files beside a
/// tokenizer; empty if there is none.
std::string chat_template_source(const std::string& path);
/// All of its chat templates.
ChatTemplateSources load_template_sources(const std::string& path);

/// What can be said of a file without loading its weights (`veery show`): opened and checked, not
/// read.
struct ModelSummary {
  int64_t parameters = 0;
  size_t weight_bytes = 0;
  std::map<std::string, int> types;  ///< name of a type -> number of tensors
};
ModelSummary summarize(const ModelFile& file);

/// The positions that sequences of a model loaded with `options` have. Throws kInput where they are
/// more than it was trained for, unless what it keeps of a sequence has a fixed size.
int32_t run_context(const TransformerConfig& config, const LoadOptions& options);

/// Bytes of the caches of one sequence of `context` positions.
size_t cache_bytes(const TransformerConfig& config, int32_t context, DType keys, DType values);

/// Bytes of the states of fixed size that the recurrent layers of one sequence have.
size_t state_bytes(const TransformerConfig& config);

}  // namespace veery
