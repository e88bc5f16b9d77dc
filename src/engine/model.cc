#include "engine/model.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "file/gguf.h"
#include "model/registry.h"

namespace veery {
namespace {

constexpr int32_t kDefaultContext = 4096;

Target best_target(const std::optional<Target>& wanted) {
  const std::vector<Target> targets = supported_targets();
  if (!wanted) return targets.front();
  if (std::find(targets.begin(), targets.end(), *wanted) == targets.end())
    throw Error(ErrorKind::kUnsupported, "this machine has no {}", name(*wanted));
  return *wanted;
}

int32_t checked_context(const LoadOptions& options, const DecoderConfig& config) {
  if (options.context < 0)
    throw Error(ErrorKind::kInput, "context is {}, expected 1 or more", options.context);
  if (options.context > config.context)
    throw Error(ErrorKind::kInput, "context is {}, the model was trained for {}", options.context,
                config.context);
  return options.context > 0 ? options.context : std::min(config.context, kDefaultContext);
}

void check_vocabulary(const Tokenizer& tokenizer, const DecoderConfig& config) {
  if (tokenizer.size() > config.vocab)
    throw Error(ErrorKind::kFormat, "the tokenizer has {} tokens, the embedding {} rows",
                tokenizer.size(), config.vocab);
}

}  // namespace

Model::Model(const std::string& path, const LoadOptions& options)
    : options_(options), pool_(options.threads), target_(best_target(options.target)) {
  const double start = seconds_now();
  file_ = open_gguf(path);
  config_ = read_config(file_);
  options_.context = checked_context(options, config_);
  options_.chunk = std::clamp(options.chunk, 1, options_.context);
  for (auto* type : {&options_.cache_keys, &options_.cache_values})
    if (!*type) *type = options.exact ? DType::kF32 : DType::kF16;
  tokenizer_ = make_tokenizer(file_);
  check_vocabulary(*tokenizer_, config_);
  if (const auto source = file_.metadata.text("tokenizer.chat_template"))
    template_ = std::make_unique<ChatTemplate>(*source, path + ": chat template");

  Trace trace(graph_, TraceMode::kServe,
              [&](const std::string& weight) { return file_.find(weight) != nullptr; });
  const Array logits = find_architecture(config_.architecture).define(trace, config_);
  logits_ = logits.id();
  argmax_ = veery::argmax(logits).id();
  file_.release_all();  // the vocabulary has been copied
  params_.load(file_, graph_, pool_, options.progress);
  load_seconds_ = seconds_now() - start;
}

ModelSummary summarize(const ModelFile& file) {
  ModelSummary summary;
  for (const TensorView& tensor : file.tensors) {
    summary.parameters += tensor.elements();
    summary.weight_bytes += tensor.data.size();
    ++summary.types[std::string(info(tensor.dtype).name)];
  }
  return summary;
}

size_t cache_bytes(const DecoderConfig& config, int32_t context, DType keys, DType values) {
  Graph graph;
  Trace trace(graph, TraceMode::kServe, [](const std::string&) { return false; });
  find_architecture(config.architecture).define(trace, config);
  return StateStore(graph, {.keys = keys,
                            .values = values,
                            .context = context,
                            .rows = std::min(LoadOptions{}.chunk, context)})
      .bytes();
}

}  // namespace veery
