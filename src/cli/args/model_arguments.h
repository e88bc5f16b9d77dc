// model_arguments.h: the flags that name a model and say how it is loaded.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/args/arguments.h"
#include "dtype/dtype.h"

namespace veery {
class Executor;
class Model;
struct LoadOptions;
}  // namespace veery

namespace veery::cli {
class Progress;

/// The model of a verb. A verb adds the flags that it supports, with one add_...() each; the
/// object must outlive Arguments::read().
struct ModelArguments {
  std::string path;
  int threads = 0;
  int32_t context = 0;
  bool exact = false;
  std::optional<DType> cache_keys, cache_values;
  std::string device = "cpu";
  int64_t device_memory = 0;  ///< MB; 0: all memory of the device
  bool relaxed = false;       ///< make_cuda_backend()
  int32_t gpu_layers = -1;    ///< LoadOptions::backend_layers; -1: absent
  std::string chat_template, chat_template_file;
  bool parse_special = false;  ///< LoadOptions::parse_special
  bool json = false;
  mutable std::shared_ptr<Executor> executor;  ///< shared_executor()

  void add_path(Arguments& app, bool required = true);
  void add_threads(Arguments& app);
  void add_context(Arguments& app);
  void add_exact(Arguments& app);
  void add_cache_types(Arguments& app);
  void add_device(Arguments& app);
  /// For verbs that can split the layers between CPU and GPU. Call it after add_device().
  void add_gpu_layers(Arguments& app);
  /// Adds --chat-template, --chat-template-file and --parse-special.
  void add_chat_template(Arguments& app);
  void add_json(Arguments& app, const std::string& what);

  /// Returns LoadOptions::chat_template as these flags set it. Throws Misuse if both are given.
  std::optional<std::string> chosen_template() const;
  /// Loads the model, with a progress bar on standard error if that is a terminal. Throws Misuse
  /// for flags that contradict each other or the device, and as the constructor of Model does.
  Model load() const;
  Model load(LoadOptions options) const;
  /// Returns `options` with the values of these flags. `bar` must outlive the loading. Throws
  /// Misuse as load() does.
  LoadOptions load_options(Progress& bar, LoadOptions options) const;
  /// The executor of all models that these flags load, made by the first call.
  std::shared_ptr<Executor> shared_executor() const;
};

}  // namespace veery::cli
