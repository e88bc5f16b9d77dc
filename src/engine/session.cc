#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/reference/cache_element.h"
#include "sample/sampler.h"

namespace veery {
namespace {

// The kind of output that the plan of a run computes: the largest one that any part wants. All
// outputs share one product with the output head, whose time is that of reading its weights. The
// best token of parts that want less is read from the logits or the most probable tokens, which
// costs less than a second product.
Wants wants_of(std::span<const RunPart> parts) {
  bool outputs = false;
  Wants most = Wants::kBest;
  for (const RunPart& part : parts)
    if (part.outputs > 0) outputs = true, most = std::max(most, part.wants);
  if (outputs || parts.empty()) return most;
  return parts.front().wants;  // no outputs: the next run of the sequence can reuse that plan
}

// The masks of all parts, computed in parallel while the device runs.
class PartMasks : public TokenMask {
 public:
  PartMasks(std::span<const RunPart> parts, ThreadPool& pool) : parts_(parts), pool_(pool) {}
  static bool has_mask(const RunPart& part) { return part.mask != nullptr && part.outputs > 0; }
  void fill(const TokenMaskRows& rows) override {
    constexpr int64_t kQuick = 8;  // waking the other threads takes as long as this many masks
    std::vector<int32_t> first;    // first output of each part
    int32_t outputs = 0;
    for (const RunPart& part : parts_) {
      first.push_back(outputs);
      outputs += part.outputs;
    }
    pool_.parallel_for(std::ssize(parts_), kQuick, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        fill(parts_[i], rows.part(first[i], parts_[i].outputs));
    });
  }

 private:
  static void fill(const RunPart& part, const TokenMaskRows& rows) {
    if (has_mask(part)) return part.mask->fill(rows);
    for (int32_t i = 0; i < part.outputs; ++i) rows.allow_all(i);
  }

  std::span<const RunPart> parts_;
  ThreadPool& pool_;
};

// Throws kInput if the states at `position` are no longer available (Pages::nearest()).
void require_kept(std::string_view what, int32_t nearest, int32_t position) {
  if (nearest != position)
    throw Error(ErrorKind::kInput,
                "{}: the state at token {} is no longer kept, the nearest kept one is at token {}",
                what, position, nearest);
}

}  // namespace

void check_ids(const Model& model, std::span<const int32_t> ids) {
  for (const int32_t id : ids)
    if (id < 0 || id >= model.config().vocab)
      throw Error(ErrorKind::kInput, "token id {} is outside of the vocabulary of {}", id,
                  model.config().vocab);
}

Session::Session(Model& model, const SessionOptions& options)
    : model_(model),
      context_(model.options().context),
      most_rows_(veery::most_rows(model, options)),
      most_outputs_(veery::most_outputs(model, options)),
      snapshot_every_(options.snapshot_every),
      features_(options.features),
      states_(model.entry().graph, state_options(model, options), memory_of(model)),
      pages_(states_),
      block_(model.entry().graph, static_cast<int32_t>(plan_rows(most_rows_))),
      tokens_(block_.find<int32_t>("tokens")),
      is_extended_(block_.find<int32_t>("is_extended")),
      features_input_(features_ > 0 ? block_.input<float>("features") : std::span<float>()),
      sequences_(static_cast<size_t>(options.sequences)),
      extended_(sequences_.size()),
      source_positions_(model.config().source.positions),
      workspaces_(make_workspaces(model)),
      source_workspace_(workspaces_.back().shared_arena()),
      arenas_(arenas_of(workspaces_)),
      plans_(model, workspaces_, states_, block_) {
  VEERY_CHECK(std::ssize(features_input_) == features_ * block_.rows());
  block_.shape.tables = pages_.tables();
  block_.shape.sequences = options.sequences;
  for (size_t i = 0; i < options.activations.places.size(); ++i)
    workspaces_[i].reserve(options.activations.places[i]);
  source_workspace_.reserve(options.activations.source);
}

ActivationBytes Session::activation_bytes() const {
  ActivationSizes sizes{.source = source_workspace_.bytes()};
  for (const Workspace& workspace : workspaces_) sizes.places.push_back(workspace.bytes());
  return veery::activation_bytes(model_, sizes);
}

int32_t Session::open(int32_t positions) {
  const auto free = std::find_if(sequences_.begin(), sequences_.end(),
                                 [](const Sequence& sequence) { return !sequence.open; });
  if (free == sequences_.end())
    throw Error(ErrorKind::kLimit, "all {} sequences are in use", sequences_.size());
  *free = {.open = true};
  const auto sequence = static_cast<int32_t>(free - sequences_.begin());
  extended_[static_cast<size_t>(sequence)] = would_extend(positions);
  return sequence;
}

bool Session::would_extend(int32_t positions) const {
  return (positions > 0 ? positions : context_) > model_.config().positions.rope.original_context;
}

int32_t Session::fork(int32_t sequence, int32_t positions) {
  const int32_t written = position(sequence);
  if (positions < 0 || positions > written)
    throw Error(ErrorKind::kInput, "fork: found {} tokens, expected at most the {} of the sequence",
                positions, written);
  require_kept("fork", pages_.nearest(sequence, positions), positions);
  const int32_t copy = open();
  pages_.share(sequence, copy, positions);
  sequences_[static_cast<size_t>(copy)].position = positions;
  sequences_[static_cast<size_t>(copy)].encoded = sequences_[static_cast<size_t>(sequence)].encoded;
  extended_[static_cast<size_t>(copy)] = extended_[static_cast<size_t>(sequence)];
  return copy;
}

void Session::close(int32_t sequence) {
  check(sequence);
  pages_.clear(sequence);
  sequences_[static_cast<size_t>(sequence)] = {};
}

int32_t Session::open_saved(const SavedShape& shape, std::vector<Pages::Place>& places) {
  VEERY_CHECK(shape.position > 0 && shape.position <= context_);
  const int32_t sequence = open();
  const auto index = static_cast<size_t>(sequence);
  try {
    places = pages_.make(sequence, shape.position, shape.encoded);
  } catch (...) {
    close(sequence);
    throw;
  }
  sequences_[index].position = shape.position;
  sequences_[index].saved = shape.position;
  sequences_[index].encoded = shape.encoded;
  extended_[index] = shape.extended ? 1 : 0;
  return sequence;
}

int32_t Session::open_held(const SavedShape& shape, std::span<const int32_t> pages,
                           const Pages::State* state) {
  const int32_t sequence = open();
  pages_.adopt(sequence, shape.position, pages, state);
  Sequence& own = sequences_[static_cast<size_t>(sequence)];
  own.position = own.saved = shape.position;
  extended_[static_cast<size_t>(sequence)] = shape.extended ? 1 : 0;
  return sequence;
}

SavedShape Session::shape(int32_t sequence) const {
  return {position(sequence), extended(sequence),
          sequences_[static_cast<size_t>(sequence)].encoded};
}

bool Session::fits_saved(int32_t positions) {
  const auto free = std::ranges::find_if(sequences_, [](const Sequence& s) { return !s.open; });
  if (free == sequences_.end()) return false;
  const Pages::Range range{static_cast<int32_t>(free - sequences_.begin()), 0, positions};
  return pages_.fit({&range, 1});
}

int32_t Session::position(int32_t sequence) const {
  check(sequence);
  return sequences_[static_cast<size_t>(sequence)].position;
}

int32_t Session::nearest(int32_t sequence, int32_t position) const {
  const int32_t written = this->position(sequence);
  if (position < 0 || position > written)
    throw Error(ErrorKind::kInput, "rewind: position {} is not within the {} tokens fed", position,
                written);
  return pages_.nearest(sequence, position);
}

bool Session::can_go_back(int32_t sequence, int32_t tokens) const {
  const int32_t begin = position(sequence);
  return pages_.can_go_back(sequence, begin, begin + tokens);
}

bool Session::can_undo(int32_t sequence, int32_t tokens) const {
  const int32_t begin = position(sequence);
  return pages_.can_go_back(sequence, std::max(begin - 1, 0), begin + tokens);
}

int32_t Session::most_undone() const {
  const auto recurrent = [](const StateStore::Group& group) { return group.blocks; };
  return std::ranges::any_of(states_.groups(), recurrent) ? states_.options().kept : INT32_MAX;
}

void Session::rewind(int32_t sequence, int32_t position) {
  require_kept("rewind", nearest(sequence, position), position);
  Sequence& own = sequences_[static_cast<size_t>(sequence)];
  pages_.cut(sequence, position);
  own.position = position;
  own.saved = std::min(own.saved, position);
}

void Session::check(int32_t sequence) const {
  if (sequence < 0 || static_cast<size_t>(sequence) >= sequences_.size() ||
      !sequences_[static_cast<size_t>(sequence)].open)
    throw Error(ErrorKind::kInput, "sequence {} is not open", sequence);
}

void Session::check(std::span<const RunPart> parts) {
  int64_t rows = 0, outputs = 0;
  ++runs_;
  for (const RunPart& part : parts) {
    const int64_t end = position(part.sequence) + static_cast<int64_t>(part.ids.size());
    if (end > context_)
      throw Error(ErrorKind::kLimit, "the prompt needs {} tokens of context, there are {}", end,
                  context_);
    if (source_positions_ > 0 && !sequences_[static_cast<size_t>(part.sequence)].encoded)
      throw Error(ErrorKind::kInput, "sequence {} has no output of an encoder to attend to",
                  part.sequence);
    if (part.outputs < 0 || static_cast<size_t>(part.outputs) > part.ids.size())
      throw Error(ErrorKind::kInput, "found {} outputs, expected at most the {} tokens of the part",
                  part.outputs, part.ids.size());
    Sequence& sequence = sequences_[static_cast<size_t>(part.sequence)];
    if (std::exchange(sequence.run, runs_) == runs_)
      throw Error(ErrorKind::kInput, "sequence {} is twice in a run", part.sequence);
    check_ids(model_, part.ids);
    VEERY_CHECK(std::ssize(part.features) == features_ * std::ssize(part.ids));
    rows += static_cast<int64_t>(part.ids.size());
    outputs += part.outputs;
  }
  if (outputs > most_outputs_)
    throw Error(ErrorKind::kLimit, "a run has {} outputs, expected at most {}", outputs,
                most_outputs_);
  if (rows > most_rows_)
    throw Error(ErrorKind::kLimit, "a run has {} tokens, expected at most {}", rows, most_rows_);
}

void Session::fill_block(std::span<const RunPart> parts) {
  block_.clear();
  for (const RunPart& part : parts) {
    if (part.ids.empty()) continue;
    const auto first = block_.shape.rows, count = static_cast<int32_t>(part.ids.size());
    std::ranges::copy(part.ids, tokens_.begin() + first);
    if (features_ > 0)
      std::ranges::copy(part.features, features_input_.begin() + first * features_);
    if (!is_extended_.empty())
      std::fill_n(is_extended_.begin() + first, count, extended(part.sequence) ? 1 : 0);
    block_.add_span(part.sequence, count, sequences_[static_cast<size_t>(part.sequence)].position,
                    source_positions_);
    for (int32_t i = part.outputs; i > 0; --i) block_.add_output(block_.shape.rows - i);
  }
}

Pages::Lack Session::lack(std::span<const RunPart> parts, int32_t times) {
  ranges_.clear();
  for (const RunPart& part : parts) {
    const int32_t begin = position(part.sequence);
    ranges_.push_back(
        {part.sequence, begin, begin + times * static_cast<int32_t>(part.ids.size())});
  }
  return pages_.lack(ranges_);
}

// Made at first use. A run has as many rows as the encoder has positions.
Plan& Session::source_plan() {
  if (source_plan_ && source_plan_->is_current()) return *source_plan_;
  if (!model_.runs_on_host())
    throw Error(ErrorKind::kUnsupported,
                "{}: an encoder that a decoder attends to is computed on the CPU only",
                model_.path());
  const SourceConfig& source = model_.config().source;
  source_plan_.reset();
  source_block_ = std::make_unique<RunBlock>(model_.entry().graph, source.positions);
  source_block_->shape.tables = pages_.tables();
  source_block_->shape.sequences = block_.shape.sequences;
  const PlanOptions options{
      .rows = source.positions, .exact = model_.options().exact, .fuse = model_.options().fuse};
  source_plan_ = std::make_unique<Plan>(
      model_.entry().graph, source_roots(model_),
      one_place(model_, source_workspace_, *source_block_, &states_), options);
  return *source_plan_;
}

void Session::encode(int32_t sequence, std::span<const float> features) {
  check(sequence);
  const Turn turn(arenas_);
  Plan& plan = source_plan();
  const std::span<float> input = source_block_->input<float>("features");
  if (features.size() != input.size())
    throw Error(ErrorKind::kInput, "the encoder is given {} features, it takes {}", features.size(),
                input.size());
  pages_.prepare_source(sequence);
  std::ranges::copy(features, input.begin());
  source_block_->clear();
  source_block_->add_span(sequence, model_.config().source.positions, 0);
  plan.run();
  sequences_[static_cast<size_t>(sequence)].encoded = true;
}

std::span<const float> Session::encoded(int64_t position) const {
  return {source_plan_->root(0).row<float>(position), static_cast<size_t>(model_.config().dim)};
}

// Makes the pages writable that a run of these parts writes.
void Session::prepare(std::span<const RunPart> parts) {
  for (const RunPart& part : parts) {
    const int32_t position = sequences_[static_cast<size_t>(part.sequence)].position;
    pages_.prepare(part.sequence, position, position + static_cast<int32_t>(part.ids.size()));
  }
}

// Advances the positions of the sequences after a run.
void Session::finish(std::span<const RunPart> parts) {
  for (const RunPart& part : parts) move_on(part.sequence, static_cast<int32_t>(part.ids.size()));
}

void Session::move_on(int32_t sequence, int32_t tokens) {
  Sequence& own = sequences_[static_cast<size_t>(sequence)];
  own.position += tokens;
  if (snapshot_every_ > 0 && own.position - own.saved >= snapshot_every_) save(sequence);
}

void Session::run(std::span<const RunPart> parts) {
  check(parts);
  int64_t rows = 0;
  int64_t outputs = 0;
  for (const RunPart& part : parts) {
    rows += std::ssize(part.ids);
    outputs += part.outputs;
  }
  if (rows == 0) return;
  Wants wants = wants_of(parts);
  if (wants == Wants::kTop && !has_top(model_)) wants = Wants::kLogits;
  fill_block(parts);
  const bool masked = wants == Wants::kTop && std::ranges::any_of(parts, &PartMasks::has_mask);
  PartMasks masks(parts, model_.pool());
  block_.shape.mask = masked ? &masks : nullptr;
  {
    const Turn turn(arenas_);  // copies of pages would wait for other models' runs outside of it
    prepare(parts);
    start(key_of(rows, std::max<int64_t>(outputs, 1), wants, set_of(parts)));
    if (masked) plans_.count_masked(last_key_);
    last_->run();
  }
  masked_ = masked;
  finish(parts);
}

// Takes the plan of the next run. The caller holds the turn.
void Session::start(const RunPlans::Key& key) {
  last_ = &plans_.find_or_make(key);
  last_key_ = key;
  fetched_.assign(plans_.logits(key) + 1, 0);
  is_chain_ = masked_ = false;
}

// Returns the set of the roots of all parts.
int32_t Session::set_of(std::span<const RunPart> parts) {
  int32_t set = 0;
  for (const RunPart& part : parts)
    if (!part.roots.empty()) set = plans_.joined(set, part.roots);
  return set;
}

int32_t Session::chain_steps(std::span<const RunPart> parts, bool draws) {
  if (parts.empty() || model_.backend().runs_on_host() || most_undone() != INT32_MAX) return 0;
  const bool plain = std::ranges::all_of(parts, [](const RunPart& part) {
    return part.ids.size() == 1 && part.outputs == 1 && part.roots.empty();
  });
  if (!plain || (draws && !has_top(model_))) return 0;
  const auto rows = std::ssize(parts);
  const RunPlans::Key key = key_of(rows, rows, draws ? Wants::kTop : Wants::kBest);
  if (const auto known = plans_.known_chain_steps(key)) return *known;
  const Turn turn(arenas_);
  return plans_.find_chain_steps(key);
}

void Session::run_chain(std::span<const RunPart> parts, std::span<const ChainRow> rows) {
  check(parts);
  VEERY_CHECK(rows.size() == parts.size());
  const bool draws = !std::ranges::all_of(rows, &ChainRow::greedy);
  const int32_t most = chain_steps(parts, draws);
  for (size_t i = 0; i < parts.size(); ++i) {
    VEERY_CHECK(rows[i].most > 0 && rows[i].most <= most);
    if (position(parts[i].sequence) + rows[i].most > context_)
      throw Error(ErrorKind::kLimit, "{} tokens are to follow {}, the context holds {}",
                  rows[i].most, position(parts[i].sequence), context_);
  }
  const auto count = std::ssize(parts);
  fill_block(parts);
  block_.shape.mask = nullptr;
  {
    const Turn turn(arenas_);
    for (size_t i = 0; i < parts.size(); ++i) {
      const int32_t begin = position(parts[i].sequence);
      pages_.prepare(parts[i].sequence, begin, begin + rows[i].most);
    }
    start(key_of(count, count, draws ? Wants::kTop : Wants::kBest));
    plans_.count_chained(last_key_);
    is_chain_ = true;
    last_->run_chain(rows);
  }
  chained_.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::span<const int32_t> made = chosen(i);
    chained_.insert(chained_.end(), made.begin(), made.end());
    const int32_t sequence = parts[i].sequence, begin = position(sequence);
    move_on(sequence, rows[i].most);
    if (std::ssize(made) < rows[i].most)
      rewind(sequence, begin + static_cast<int32_t>(made.size()));
  }
}

std::vector<float> Session::source_values(int32_t sequence, const std::string& state,
                                          int64_t positions) const {
  check(sequence);
  VEERY_CHECK(sequences_[static_cast<size_t>(sequence)].encoded && positions <= source_positions_);
  const Operand& cache = states_.at(state);
  const int64_t heads = cache.rows, size = cache.cols / heads;
  std::vector<float> values(static_cast<size_t>(positions * cache.cols));
  model_.pool().parallel_for(positions, 64, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t head = 0; head < heads; ++head) {
        const CachedHead from{cache, page_of(cache, block_.shape, sequence, p), head, p};
        float* const to = values.data() + p * cache.cols + head * size;
        for (int64_t i = 0; i < size; ++i) to[i] = read_cached(from, i);
      }
  });
  return values;
}

void Session::save(int32_t sequence) {
  const int32_t at = position(sequence);
  pages_.save(sequence, at);
  sequences_[static_cast<size_t>(sequence)].saved = at;
}

// Roots of a plan for Wants::kTop in their order.
enum TopRoot : size_t { kValues, kIndices, kMass };

// Copies a root that stays on the device to the host, once after a run.
void Session::fetch(size_t root) const {
  const std::lock_guard lock(fetch_);
  if (root >= fetched_.size()) fetched_.resize(root + 1);
  if (std::exchange(fetched_[root], 1) == 0) last_->fetch(root);
}

std::span<const float> Session::logits(int32_t i) const {
  const size_t root = plans_.logits(last_key_);
  if (root > 0) fetch(root);
  return {last_->root(root).row<float>(i), static_cast<size_t>(model_.config().vocab)};
}

std::span<const float> Session::row(RootId root, int64_t i) const {
  const int32_t at = plans_.find(last_key_, root);
  VEERY_CHECK(at >= 0);
  const auto index = static_cast<size_t>(at);
  fetch(index);
  const Operand& value = last_->root(index);
  return {value.row<float>(i), static_cast<size_t>(value.cols)};
}

std::optional<TopLogits> Session::top(int32_t i) const {
  if (last_key_.wants != Wants::kTop) return {};
  const Operand& values = last_->root(kValues);
  const auto count = static_cast<size_t>(values.cols);
  return TopLogits{{values.row<float>(i), count},
                   {last_->root(kIndices).row<int32_t>(i), count},
                   *last_->root(kMass).row<float>(i)};
}

int32_t Session::best(int32_t i) const {
  if (is_chain_) return chained_[static_cast<size_t>(i)];
  if (last_key_.wants == Wants::kBest) return *last_->root(0).row<int32_t>(i);
  if (last_key_.wants == Wants::kTop && *last_->root(kIndices).row<int32_t>(i) >= 0)
    return *last_->root(kIndices).row<int32_t>(i);
  return argmax(logits(i));
}

Wants wants_of(const Sampler& sampler) {
  if (sampler.greedy()) return Wants::kBest;
  return sampler.takes_top() ? Wants::kTop : Wants::kLogits;
}

// Samples from the most probable tokens if they suffice; otherwise fetches all logits.
int32_t draw(const Session& session, int32_t i, Sampler& sampler,
             std::span<const int32_t> history) {
  if (session.chained()) sampler.count_draw();
  if (session.chained() || sampler.greedy()) return session.best(i);
  if (const auto top = session.top(i); top && sampler.takes_top())
    if (const auto id = sampler.sample(*top)) return *id;
  return sampler.sample(session.logits(i), history);
}

RunPlans::Key Session::key_of(int64_t rows, int64_t outputs, Wants wants, int32_t set) {
  const int64_t most = plan_rows(rows);
  return {most, std::min(most, plan_rows(outputs)), wants, set};
}

Plan& Session::plan(int64_t rows, int64_t outputs, Wants wants) {
  const Turn turn(arenas_);
  return plans_.find_or_make(key_of(rows, outputs, wants));
}

}  // namespace veery
