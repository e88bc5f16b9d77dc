// model_card.h: what a server knows of a model that need not be loaded.
#pragma once
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "serve/models/memory_plan.h"

namespace veery::serve {

struct ModelCard {
  std::string id, path;
  std::string file;     ///< where `path`, which may be a name, was found
  int64_t created = 0;  ///< seconds since 1970, when the server learned of it
  /// "texts", "embeddings", "scores" or "transcripts".
  const char* makes = "texts";
  TransformerConfig config;
  ModelSummary summary;
  bool gguf = false;
  int32_t context = 0;  ///< positions that an answer and its prompt may have
  MemoryPlan plan;
  size_t bytes = 0;  ///< what it takes loaded
};

/// Reads the header of the model's file and fits the model into `memory` (fit_memory()). Throws as
/// open_model(), read_config() and fit_memory() do.
ModelCard read_card(ModelSource& source, size_t memory);

}  // namespace veery::serve
