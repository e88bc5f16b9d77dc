#include "engine/session.h"

#include <algorithm>

#include "base/error.h"
#include "engine/sequence_file.h"

namespace veery {
namespace {

constexpr size_t kAllOutputsChunk = 64;  // bounds the memory of logits wanted for every row

}  // namespace

Session::Session(Model& model, int64_t positions)
    : model_(model),
      runner_(model),
      sequence_(
          runner_.open(static_cast<int32_t>(std::clamp<int64_t>(positions, 0, runner_.context())))),
      chunk_(model.options().chunk) {
  const SourceConfig& source = model.config().source;
  if (source.layers > 0)
    runner_.hear(sequence_,
                 std::vector<float>(static_cast<size_t>(2 * source.positions * source.bands)));
}

void Session::set_chunk(int32_t chunk) {
  if (chunk < 1 || chunk > model_.options().chunk)
    throw Error(ErrorKind::kInput, "a run of {} tokens is asked for, expected 1 to {}", chunk,
                model_.options().chunk);
  chunk_ = chunk;
}

void Session::check(std::span<const int32_t> ids) const {
  const int64_t end = position() + static_cast<int64_t>(ids.size());
  if (end > context())
    throw Error(ErrorKind::kLimit, "the prompt needs {} tokens of context, there are {}", end,
                context());
  check_ids(model_, ids);
}

size_t Session::feed(std::span<const int32_t> ids, const std::function<bool()>& go_on) {
  check(ids);
  size_t fed = 0;
  while (fed < ids.size()) {
    if (fed > 0 && go_on && !go_on()) break;
    const auto part = ids.subspan(fed, std::min(ids.size() - fed, static_cast<size_t>(chunk_)));
    fed += part.size();
    const RunPart run = {sequence_, part, fed == ids.size() ? 1 : 0};
    runner_.run({&run, 1});
    logits_ = runner_.logits(0);
  }
  return fed;
}

void Session::feed_all(std::span<const int32_t> ids, const OnLogits& on_logits) {
  check(ids);
  const size_t chunk = std::min(static_cast<size_t>(chunk_), kAllOutputsChunk);
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), chunk));
    ids = ids.subspan(part.size());
    const auto rows = static_cast<int32_t>(part.size());
    const RunPart run = {sequence_, part, rows};
    runner_.run({&run, 1});
    for (int32_t r = 0; r < rows; ++r) {
      logits_ = runner_.logits(r);
      on_logits(position() - rows + r, logits_);
    }
  }
}

size_t Session::decode_greedy(int32_t token, std::span<int32_t> out,
                              const std::function<bool(int32_t)>& stop) {
  check({&token, 1});
  size_t made = 0;
  while (made < out.size() && position() < context()) {
    const RunPart run = {sequence_, {&token, 1}, 1};
    runner_.run({&run, 1}, true);
    token = runner_.best(0);
    out[made++] = token;
    if (stop && stop(token)) break;
  }
  return made;
}

void Session::write(std::span<const int32_t> ids, const std::string& path) {
  if (std::ssize(ids) != position())
    throw Error(ErrorKind::kInput, "{} tokens are to be saved, the sequence has {}", ids.size(),
                position());
  write_sequence(runner_, sequence_, {{ids.begin(), ids.end()}, position(), {}}, path);
}

std::vector<int32_t> Session::read(const std::string& path) {
  SequenceFile file(runner_, path);
  if (file.saved().positions != std::ssize(file.saved().ids))
    throw Error(ErrorKind::kInput, "{}: the caches hold {} of {} tokens, expected all", path,
                file.saved().positions, file.saved().ids.size());
  runner_.close(sequence_);
  logits_ = {};
  int32_t sequence = -1;
  try {
    sequence = file.load();
  } catch (...) {
    sequence_ = runner_.open();
    throw;
  }
  sequence_ = sequence >= 0 ? sequence : runner_.open();
  return file.saved().ids;
}

}  // namespace veery
