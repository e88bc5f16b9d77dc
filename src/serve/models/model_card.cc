#include "serve/models/model_card.h"

#include <ctime>

#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"

namespace veery::serve {
ModelCard read_card(ModelSource& source, size_t memory) {
  const ModelFile file = open_model(source.path);
  ModelCard card{source.id, source.path, file.path, std::time(nullptr)};
  card.config = read_config(file);
  card.summary = summarize(file);
  card.gguf = file.container == Container::kGguf;
  card.plan = fit_memory(source, memory);
  card.context = card.plan.context;
  card.bytes = card.plan.bytes.total();
  const bool encoder = card.config.attention.mask != Mask::kCausal;
  if (card.config.source.layers > 0)
    card.makes = "transcripts";
  else if (makes_scores(file, card.config))
    card.makes = "scores";
  else if (encoder)
    card.makes = "embeddings";
  return card;
}

}  // namespace veery::serve
