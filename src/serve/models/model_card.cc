#include "serve/models/model_card.h"

#include <algorithm>
#include <ctime>

#include "import/folder/sentence_config.h"
#include "import/open_model.h"
#include "import/read_config.h"

namespace veery::serve {
namespace {

// As many positions as all answers may have, as far as the caches have memory for them.
size_t bytes_of_caches(const ModelCard& card, const ModelSource& source) {
  const DType usual = source.load.exact ? DType::kF32 : DType::kBF16;
  const size_t one = cache_bytes(card.config, card.context, source.load.cache_keys.value_or(usual),
                                 source.load.cache_values.value_or(usual));
  const auto slots = static_cast<size_t>(source.scheduler.slots);
  return std::max(one, std::min(one * slots, source.scheduler.cache_bytes));
}

}  // namespace

ModelCard read_card(const ModelSource& source) {
  const ModelFile file = open_model(source.path);
  ModelCard card{source.id, source.path, file.path, std::time(nullptr)};
  card.config = read_config(file);
  card.summary = summarize(file);
  card.gguf = file.container == Container::kGguf;
  card.context = run_context(card.config, source.load);
  card.bytes = card.summary.weight_bytes;
  const bool encoder = card.config.mask != Mask::kCausal;
  if (card.config.source.layers > 0)
    card.makes = "transcripts";
  else if (makes_scores(file, card.config))
    card.makes = "scores";
  else if (encoder)
    card.makes = "embeddings";
  else
    card.bytes += bytes_of_caches(card, source);
  return card;
}

}  // namespace veery::serve
