// served_model.h: a loaded model of a server.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "schedule/scheduler.h"
#include "serve/models/memory_plan.h"
#include "tasks/embed.h"
#include "tasks/inspect/inspect.h"
#include "tasks/speech/transcribe.h"
#include "text/grammar/call_form.h"

namespace veery::serve {

/// A decoder with its scheduler, an embedder, a reranker or a transcriber.
class ServedModel {
 public:
  ServedModel(std::string id, const std::string& path, const LoadOptions& load,
              const SchedulerOptions& options);

  const std::string& id() const { return id_; }
  int64_t created() const { return created_; }  ///< seconds since 1970
  const Model& model() const;
  /// Returns the allocated memory. It is allocated at once, so requests do not change it.
  ModelBytes bytes() const;
  /// "texts", "embeddings", "scores" or "transcripts".
  const char* makes() const;
  /// Returns null if the model generates no text.
  Scheduler* scheduler() { return scheduler_.get(); }
  /// Created by the first call. Throws kUnsupported if veery was built without xgrammar.
  GrammarCompiler& grammars();
  /// Determined by the first call. Throws as find_call_form() does.
  const CallForm& call_form();
  bool embeds() const { return embedder_ != nullptr; }
  bool reranks() const { return reranker_ != nullptr; }
  bool transcribes() const { return transcriber_ != nullptr; }
  // embed(), rerank() and transcribe() run one request at a time; others wait.
  std::vector<TextEmbedding> embed(std::span<const std::string> texts);
  /// `instruction`: empty for the default. Throws as Reranker::set_instruction() does.
  std::vector<PairScore> rerank(std::string_view query, std::span<const std::string> documents,
                                const std::string& instruction);
  /// Runs between two steps of the scheduler. Throws kUnsupported if the model generates no text,
  /// kLimit naming both numbers if the result has more than `most` numbers.
  Inspection inspect(std::span<const int32_t> ids, const InspectOptions& options, double most);
  Transcript transcribe(Sound& sound, const TranscribeOptions& options,
                        const TranscribeEvents& events);

 private:
  std::string id_;
  int64_t created_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<Reranker> reranker_;
  std::unique_ptr<Transcriber> transcriber_;
  std::mutex encoding_;
  std::once_flag grammars_made_;
  std::unique_ptr<GrammarCompiler> grammars_;
  std::mutex finding_;
  std::optional<CallForm> call_form_;
};

}  // namespace veery::serve
