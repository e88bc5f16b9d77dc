#include "serve/models/served_model.h"

#include <ctime>

#include "chat/call_form.h"
#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "text/chat/generic_calls.h"

namespace veery::serve {

ServedModel::ServedModel(std::string id, const std::string& path, const LoadOptions& load,
                         const SchedulerOptions& options)
    : id_(std::move(id)), created_(std::time(nullptr)) {
  const ModelFile file = open_model(path);
  const TransformerConfig config = read_config(file);
  const bool encoder = config.attention.mask != Mask::kCausal;
  if (config.source.layers > 0) {
    transcriber_ = std::make_unique<Transcriber>(path, load, 5, 1, /*reserve=*/true);
  } else if (makes_scores(file, config)) {
    reranker_ = std::make_unique<Reranker>(path, load);
    reranker_->reserve();
  } else if (encoder) {
    embedder_ = std::make_unique<Embedder>(path, load);
    embedder_->reserve();
  } else {
    model_ = std::make_unique<Model>(path, load);
    scheduler_ = std::make_unique<Scheduler>(*model_, options);
  }
}

const Model& ServedModel::model() const {
  if (transcriber_) return transcriber_->model();
  return model_ ? *model_ : embedder_ ? embedder_->model() : reranker_->model();
}

ModelBytes ServedModel::bytes() const {
  ModelBytes bytes;
  bytes.weights = model().weight_bytes();
  if (scheduler_) {
    const SchedulerBytes own = scheduler_->bytes();
    bytes.caches = own.caches;
    bytes.activations = own.activations;
    bytes.drafts = own.drafts;
  } else if (transcriber_) {
    bytes.caches = transcriber_->session().cache_bytes();
    bytes.activations = transcriber_->session().activation_bytes();
  } else {
    bytes.activations = embedder_ ? embedder_->activation_bytes() : reranker_->activation_bytes();
  }
  return bytes;
}

const char* ServedModel::makes() const {
  return transcriber_ ? "transcripts" : embedder_ ? "embeddings" : reranker_ ? "scores" : "texts";
}

const CallForm& ServedModel::call_form() {
  const std::lock_guard lock(finding_);
  if (!call_form_) call_form_ = find_call_form(model());
  return *call_form_;
}

GrammarCompiler& ServedModel::grammars() {
  std::call_once(grammars_made_, [&] {
    grammars_ = std::make_unique<GrammarCompiler>(model().tokenizer(), model().config().vocab,
                                                  model().answer_format().with(kGenericCalls));
  });
  return *grammars_;
}

std::vector<TextEmbedding> ServedModel::embed(std::span<const std::string> texts) {
  const std::lock_guard lock(encoding_);
  return embedder_->embed(texts);
}

std::vector<PairScore> ServedModel::rerank(std::string_view query,
                                           std::span<const std::string> documents,
                                           const std::string& instruction) {
  const std::lock_guard lock(encoding_);
  reranker_->set_instruction(instruction);
  return reranker_->score(query, documents);
}

Inspection ServedModel::inspect(std::span<const int32_t> ids, const InspectOptions& options,
                                double most) {
  if (!scheduler_)
    throw Error(ErrorKind::kUnsupported, "the model '{}' makes {}, expected one that makes texts",
                id_, makes());
  Inspection result;
  scheduler_->alone([&](Model& model) {
    Inspector inspector(model);
    const double numbers = inspector.numbers(ids.size(), options);
    if (numbers > most)
      throw Error(ErrorKind::kLimit,
                  "the result has {:.0f} numbers, expected at most {:.0f}: use fewer layers or "
                  "heads, or a shorter text",
                  numbers, most);
    result = inspector.run(ids, options);
  });
  return result;
}

Transcript ServedModel::transcribe(Sound& sound, const TranscribeOptions& options,
                                   const TranscribeEvents& events) {
  const std::lock_guard lock(encoding_);
  return transcriber_->transcribe(sound, options, events);
}

}  // namespace veery::serve
