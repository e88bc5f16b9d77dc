// model_card.h: what a server knows of a model that need not be loaded.
#pragma once
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "schedule/scheduler.h"

namespace veery::serve {

/// How one model of a server is to be loaded.
struct ModelSource {
  std::string id, path;
  LoadOptions load;  ///< without a progress
  SchedulerOptions scheduler;
  bool pinned = false;  ///< it stays once it is loaded
};

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
  /// What it takes loaded: weights and caches. An estimate until it was loaded once.
  size_t bytes = 0;
};

/// Reads the header of the model's file. Throws as open_model() and read_config() do.
ModelCard read_card(const ModelSource& source);

}  // namespace veery::serve
