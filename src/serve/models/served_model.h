// served_model.h: a model as a server has it.
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

/// A decoder with its scheduler, an encoder, or a model of speech.
class ServedModel {
 public:
  ServedModel(std::string id, const std::string& path, const LoadOptions& load,
              const SchedulerOptions& options);

  const std::string& id() const { return id_; }
  int64_t created() const { return created_; }  ///< seconds since 1970
  const Model& model() const;
  /// What was allotted. All of it is taken at once, so that requests do not change it.
  ModelBytes bytes() const;
  /// "texts", "embeddings", "scores" or "transcripts".
  const char* makes() const;
  /// nullptr: it makes no texts.
  Scheduler* scheduler() { return scheduler_.get(); }
  /// Made when first asked for. Throws kUnsupported where veery was built without xgrammar.
  GrammarCompiler& grammars();
  /// Found when first asked for; throws as find_call_form() does.
  const CallForm& call_form();
  bool embeds() const { return embedder_ != nullptr; }
  bool reranks() const { return reranker_ != nullptr; }
  bool transcribes() const { return transcriber_ != nullptr; }
  /// One at a time; others wait.
  std::vector<TextEmbedding> embed(std::span<const std::string> texts);
  /// `instruction`: empty: the usual one. Throws as Reranker::set_instruction().
  std::vector<PairScore> rerank(std::string_view query, std::span<const std::string> documents,
                                const std::string& instruction);
  /// Between steps of the answers in the making. Throws kUnsupported for what makes no texts,
  /// kLimit naming both numbers where the results are more than `most` numbers.
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
