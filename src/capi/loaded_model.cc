#include "capi/loaded_model.h"

#include <unistd.h>

#include "base/error.h"
#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"

namespace veery::capi {
namespace {

const char* name(Makes makes) {
  switch (makes) {
    case Makes::kTexts: return "texts";
    case Makes::kEmbeddings: return "embeddings";
    case Makes::kScores: return "scores of documents";
    case Makes::kTranscripts: return "transcripts";
  }
  return "";
}

Makes made_for(const std::string& path) {
  const ModelFile file = open_model(path);
  const TransformerConfig config = read_config(file);
  if (config.source.layers > 0) return Makes::kTranscripts;
  if (makes_scores(file, config)) return Makes::kScores;
  return config.attention.mask == Mask::kCausal ? Makes::kTexts : Makes::kEmbeddings;
}

}  // namespace

LoadedModel::LoadedModel(const std::string& path, std::optional<Makes> makes,
                         const LoadOptions& load, const SchedulerOptions& options)
    : process_(::getpid()), makes_(makes ? *makes : made_for(path)), options_(options) {
  switch (makes_) {
    case Makes::kTexts:
      model_ = std::make_unique<Model>(path, load);
      scheduler_ = std::make_unique<Scheduler>(*model_, options_);
      break;
    case Makes::kEmbeddings: embedder_ = std::make_unique<Embedder>(path, load); break;
    case Makes::kScores: reranker_ = std::make_unique<Reranker>(path, load); break;
    case Makes::kTranscripts: transcriber_ = std::make_unique<Transcriber>(path, load); break;
  }
}

bool LoadedModel::is_here() const { return ::getpid() == process_; }

void LoadedModel::check_process() const {
  if (!is_here())
    throw Error(ErrorKind::kUnsupported,
                "{}: the model was loaded by process {}, this is process {} after a fork, which "
                "has none of its threads: load the model in this process",
                model().path(), process_, ::getpid());
}

const Model& LoadedModel::model() const {
  if (transcriber_) return transcriber_->model();
  return model_ ? *model_ : embedder_ ? embedder_->model() : reranker_->model();
}

int32_t LoadedModel::context() const { return model().options().context; }

void LoadedModel::require(Makes makes) const {
  if (makes != makes_)
    throw Error(ErrorKind::kUnsupported, "{}: the model makes {}, expected one that makes {}",
                model().path(), name(makes_), name(makes));
}

// Returns the scheduler, which lives as long as a lease is held; creates it after alone().
Scheduler& LoadedModel::scheduler() {
  const std::lock_guard lock(mutex_);
  if (!scheduler_) scheduler_ = std::make_unique<Scheduler>(*model_, options_);
  return *scheduler_;
}

std::shared_ptr<Ticket> LoadedModel::submit(GenerateRequest request) {
  require(Makes::kTexts);
  return scheduler().submit(std::move(request));
}

void LoadedModel::between_steps(const std::function<void(Model&)>& use) {
  require(Makes::kTexts);
  scheduler().alone(use);
}

void LoadedModel::save(std::span<const int32_t> ids, const std::string& path) {
  require(Makes::kTexts);
  scheduler().save(ids, {}, path);
}

std::vector<int32_t> LoadedModel::load(const std::string& path) {
  require(Makes::kTexts);
  return scheduler().load(path).ids;
}

std::vector<TextEmbedding> LoadedModel::embed(std::span<const std::string> texts) {
  require(Makes::kEmbeddings);
  const std::lock_guard lock(mutex_);
  return embedder_->embed(texts);
}

std::vector<PairScore> LoadedModel::rerank(std::string_view query,
                                           std::span<const std::string> documents) {
  require(Makes::kScores);
  const std::lock_guard lock(mutex_);
  return reranker_->score(query, documents);
}

Transcript LoadedModel::transcribe(Sound& sound, const TranscribeOptions& options) {
  require(Makes::kTranscripts);
  const std::lock_guard lock(mutex_);
  return transcriber_->transcribe(sound, options);
}

GrammarCompiler& LoadedModel::grammars() {
  std::call_once(grammars_made_, [&] {
    grammars_ = std::make_unique<GrammarCompiler>(model().tokenizer(), model().config().vocab);
  });
  return *grammars_;
}

bool LoadedModel::alone(const std::function<void(Model&)>& use) {
  require(Makes::kTexts);
  const std::lock_guard lock(mutex_);
  if (leases_ > 0) return false;
  scheduler_.reset();  // scheduler() creates the next one
  use(*model_);
  return true;
}

Lease::Lease(std::shared_ptr<LoadedModel> model) : model_(std::move(model)) {
  const std::lock_guard lock(model_->mutex_);
  ++model_->leases_;
}

void Lease::release() {
  if (!held_) return;
  held_ = false;
  const std::lock_guard lock(model_->mutex_);
  --model_->leases_;
}

}  // namespace veery::capi
