// loaded_model.h: a model with its scheduler, or its embedder, reranker or transcriber.
#pragma once
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "schedule/scheduler.h"
#include "tasks/embed.h"
#include "tasks/speech/transcribe.h"
#include "text/grammar/grammar.h"

namespace veery::capi {

enum class Makes { kTexts = 1, kEmbeddings, kScores, kTranscripts };

/// Thread-safe: answers run together on the scheduler; embeddings, scores and transcripts are
/// computed one call at a time.
class LoadedModel {
 public:
  /// `makes`: the kind of output; absent: as the file says. Throws as Model does.
  LoadedModel(const std::string& path, std::optional<Makes> makes, const LoadOptions& load,
              const SchedulerOptions& options);

  /// Returns false in a process that was forked after loading: it lacks the model's threads, so
  /// calls would wait forever.
  bool is_here() const;
  /// Throws kUnsupported unless is_here().
  void check_process() const;

  Makes makes() const { return makes_; }
  const Model& model() const;
  int32_t context() const;
  int64_t columns() const { return embedder_ ? embedder_->columns() : 0; }
  int32_t slots() const { return options_.slots; }

  /// The next four throw kUnsupported if the model makes another kind of output.
  std::shared_ptr<Ticket> submit(GenerateRequest request);
  std::vector<TextEmbedding> embed(std::span<const std::string> texts);
  std::vector<PairScore> rerank(std::string_view query, std::span<const std::string> documents);
  Transcript transcribe(Sound& sound, const TranscribeOptions& options);
  GrammarCompiler& grammars();
  /// Scheduler::save() without a note, and Scheduler::load(). The caller holds a lease.
  void save(std::span<const int32_t> ids, const std::string& path);
  std::vector<int32_t> load(const std::string& path);

  /// Runs `use` with exclusive access to the model, and clears the prefix cache. Returns false
  /// without running it while a lease is held.
  bool alone(const std::function<void(Model&)>& use);

  /// Runs `use` with exclusive access to the model, between two steps of running answers. The
  /// caller holds a lease.
  void between_steps(const std::function<void(Model&)>& use);

  void require(Makes makes) const;

 private:
  friend class Lease;

  Scheduler& scheduler();

  const pid_t process_;
  Makes makes_;
  SchedulerOptions options_;
  std::mutex mutex_;  // guards scheduler_, leases_ and the use of the encoders
  int64_t leases_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<Reranker> reranker_;
  std::unique_ptr<Transcriber> transcriber_;
  std::once_flag grammars_made_;
  std::unique_ptr<GrammarCompiler> grammars_;
  std::unique_ptr<Scheduler> scheduler_;
};

/// Keeps the scheduler alive: LoadedModel::alone() does nothing while one is held.
class Lease {
 public:
  explicit Lease(std::shared_ptr<LoadedModel> model);
  ~Lease() { release(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  void release();
  LoadedModel& model() const { return *model_; }

 private:
  std::shared_ptr<LoadedModel> model_;
  bool held_ = true;
};

}  // namespace veery::capi
