#include "engine/sequence_reader.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace veery {
namespace {

constexpr size_t kAllOutputsChunk = 64;  // rows of runs with logits for every row; bounds memory

}  // namespace

SequenceReader::SequenceReader(Model& model, int64_t positions)
    : model_(model),
      session_(model),
      sequence_(session_.open(
          static_cast<int32_t>(std::clamp<int64_t>(positions, 0, session_.context())))),
      chunk_(model.options().chunk) {
  const SourceConfig& source = model.config().source;
  if (source.layers > 0)
    session_.encode(sequence_,
                    std::vector<float>(static_cast<size_t>(2 * source.positions * source.bands)));
}

void SequenceReader::check(std::span<const int32_t> ids) const {
  const int64_t end = position() + static_cast<int64_t>(ids.size());
  if (end > context())
    throw Error(ErrorKind::kLimit, "the prompt needs {} tokens of context, there are {}", end,
                context());
  check_ids(model_, ids);
}

void SequenceReader::feed(std::span<const int32_t> ids) {
  check(ids);
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), static_cast<size_t>(chunk_)));
    ids = ids.subspan(part.size());
    const RunPart run = {sequence_, part, ids.empty() ? 1 : 0};
    session_.run({&run, 1});
    logits_ = session_.logits(0);
  }
}

void SequenceReader::feed_all(std::span<const int32_t> ids, const OnLogits& on_logits) {
  check(ids);
  const size_t chunk = std::min(static_cast<size_t>(chunk_), kAllOutputsChunk);
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), chunk));
    ids = ids.subspan(part.size());
    const auto rows = static_cast<int32_t>(part.size());
    const RunPart run = {sequence_, part, rows};
    session_.run({&run, 1});
    for (int32_t r = 0; r < rows; ++r) {
      logits_ = session_.logits(r);
      on_logits(position() - rows + r, logits_);
    }
  }
}

}  // namespace veery
