// model_card.h: the properties of a model that are known without loading it.
#pragma once
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "serve/models/memory_plan.h"

namespace veery::serve {

struct ModelCard {
  std::string id, path;
  std::string file;     ///< the file of `path`, which may be a name
  int64_t created = 0;  ///< seconds since 1970 when the server read the header
  /// "texts", "embeddings", "scores" or "transcripts".
  const char* makes = "texts";
  TransformerConfig config;
  ModelSummary summary;
  bool gguf = false;
  int32_t context = 0;  ///< positions of a prompt and its answer, at most
  MemoryPlan plan;
  size_t bytes = 0;  ///< memory of the loaded model
};

/// Reads the header of the model's file and fits the model into `memory` bytes (fit_memory()).
/// Throws as open_model(), read_config() and fit_memory() do.
ModelCard read_card(ModelSource& source, size_t memory);

}  // namespace veery::serve
