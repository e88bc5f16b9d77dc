#include "engine/session.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace veery {
namespace {

// Plans are made for these numbers of rows; a run takes the smallest that holds it. Few rows have
// kernels of their own.
constexpr int64_t kBuckets[] = {1, 4, 16, 64, 256, 512};
constexpr int32_t kAllOutputsChunk =
    64;  // bounds the memory of logits that are wanted for every row

int64_t bucket(int64_t rows) {
  for (int64_t size : kBuckets)
    if (rows <= size) return size;
  return rows;
}

}  // namespace

Session::Session(Model& model)
    : model_(model),
      context_(model.options().context),
      chunk_(model.options().chunk),
      states_(model.graph(),
              {.keys = *model.options().cache_keys,
               .values = *model.options().cache_values,
               .context = context_,
               .rows = chunk_}),
      slots_(static_cast<int32_t>(bucket(chunk_))) {
  for (const StateStore::Group& group : states_.groups()) {
    auto& pages = pages_.emplace_back(static_cast<size_t>(group.ring));
    std::iota(pages.begin(), pages.end(), 0);
    tables_.push_back({pages.data(), group.ring});
  }
  slots_.slots.tables = tables_.data();
  slots_.slots.sequences = 1;
}

Session::~Session() = default;

size_t Session::cache_bytes() const { return states_.bytes(); }

Plan& Session::plan(int64_t rows, bool greedy, bool all_outputs) {
  const int64_t size = bucket(rows);
  auto& slot = plans_[{size, greedy, all_outputs}];
  if (!slot) {
    const PlanOptions options{.rows = size,
                              .outputs = all_outputs ? size : 1,
                              .target = model_.target(),
                              .exact = model_.options().exact,
                              .fuse = model_.options().fuse};
    const NodeId root = greedy ? model_.argmax() : model_.logits();
    slot = std::make_unique<Plan>(model_.graph(), std::vector<NodeId>{root},
                                  Binding{&model_.params(), &states_, &slots_, &model_.pool()},
                                  options);
  }
  return *slot;
}

void Session::set_chunk(int32_t chunk) {
  if (chunk < 1 || chunk > model_.options().chunk)
    throw Error(ErrorKind::kInput, "a run of {} tokens is asked for, expected 1 to {}", chunk,
                model_.options().chunk);
  chunk_ = chunk;
}

void Session::check(std::span<const int32_t> ids) const {
  if (position_ + static_cast<int64_t>(ids.size()) > context_)
    throw Error(ErrorKind::kLimit, "the prompt needs {} tokens of context, there are {}",
                position_ + static_cast<int64_t>(ids.size()), context_);
  for (int32_t id : ids)
    if (id < 0 || id >= model_.config().vocab)
      throw Error(ErrorKind::kInput, "token id {} is outside of the vocabulary of {}", id,
                  model_.config().vocab);
}

// Outputs are asked for the last `outputs` rows.
void Session::run(Plan& plan, std::span<const int32_t> ids, int32_t outputs) {
  const auto rows = static_cast<int32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), slots_.tokens.begin());
  std::iota(slots_.positions.begin(), slots_.positions.begin() + rows, position_);
  std::fill_n(slots_.sequence.begin(), rows, 0);
  std::iota(slots_.output_rows.begin(), slots_.output_rows.begin() + outputs, rows - outputs);
  slots_.slots.rows = rows;
  slots_.slots.outputs = outputs;
  plan.run();
  position_ += rows;
}

void Session::feed(std::span<const int32_t> ids) {
  check(ids);
  while (!ids.empty()) {
    const auto part = ids.first(std::min<size_t>(ids.size(), static_cast<size_t>(chunk_)));
    ids = ids.subspan(part.size());
    Plan& next = plan(static_cast<int64_t>(part.size()));
    run(next, part, ids.empty() ? 1 : 0);
    logits_ = {next.root(0).row<float>(0), static_cast<size_t>(model_.config().vocab)};
  }
}

void Session::feed_all(std::span<const int32_t> ids, const OnLogits& on_logits) {
  check(ids);
  const auto chunk = static_cast<size_t>(std::min(chunk_, kAllOutputsChunk));
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), chunk));
    ids = ids.subspan(part.size());
    const auto rows = static_cast<int32_t>(part.size());
    Plan& next = plan(rows, false, true);
    run(next, part, rows);
    for (int32_t r = 0; r < rows; ++r) {
      logits_ = {next.root(0).row<float>(r), static_cast<size_t>(model_.config().vocab)};
      on_logits(position_ - rows + r, logits_);
    }
  }
}

size_t Session::decode_greedy(int32_t token, std::span<int32_t> out,
                              const std::function<bool(int32_t)>& stop) {
  check({&token, 1});
  Plan& step = plan(1, true);
  size_t made = 0;
  while (made < out.size() && position_ < context_) {
    run(step, {&token, 1}, 1);
    token = *step.root(0).row<int32_t>(0);
    out[made++] = token;
    if (stop && stop(token)) break;
  }
  return made;
}

void Session::rewind(int32_t position) {
  if (position < 0 || position > position_)
    throw Error(ErrorKind::kInput, "rewind: position {} is not within the {} tokens fed", position,
                position_);
  for (const StateStore::Group& group : states_.groups()) {
    if (group.window == 0) continue;
    // Page p was written over once position_ reached page p + ring.
    const int32_t newest = (std::max(position_, 1) - 1) / kPagePositions;
    const int32_t oldest_needed = std::max(0, position - group.window + 1) / kPagePositions;
    if (position > 0 && newest - oldest_needed >= group.ring)
      throw Error(ErrorKind::kInput,
                  "rewind: the window of {} positions before {} is no longer kept", group.window,
                  position);
  }
  position_ = position;
}

}  // namespace veery
