#include "schedule/drafts/head_draft.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "model/arch/entry.h"

namespace veery {
namespace {

// Tokens of an answer that wait for the next draft; more are run at once.
constexpr size_t kMostWaiting = 32;

}  // namespace

bool HeadDraft::possible(const Model& model) {
  return model.runs_on_host() && model.entry().roots.contains(kRoot);
}

std::unique_ptr<Model> HeadDraft::make_model(const Model& target) {
  return std::make_unique<Model>(
      target, [](ModelFile&, TransformerConfig&) {}, draft_entry);
}

SessionOptions HeadDraft::session_options(const Model& target, int32_t slots) {
  return {.sequences = slots,
          .snapshots = 0,
          .snapshot_every = 0,
          .features = target.config().dim,
          .roots = {kHidden},
          .outputs = slots};
}

HeadDraft::HeadDraft(Model& model, const SessionOptions& options)
    : model_(model),
      session_(model, options),
      hidden_(session_.root(kHidden)),
      slots_(static_cast<size_t>(options.sequences)) {}

HeadDraft::Slot* HeadDraft::find(const void* answer) {
  const auto found = std::ranges::find(slots_, answer, &Slot::answer);
  return found == slots_.end() ? nullptr : &*found;
}

void HeadDraft::forget(const void* answer) {
  Slot* const slot = find(answer);
  if (slot == nullptr) return;
  session_.close(slot->sequence);
  *slot = {};
}

void HeadDraft::show(const void* answer, int32_t begin, std::span<const int32_t> ids,
                     std::span<const float> hidden) {
  if (ids.empty()) return;
  Slot* slot = find(answer);
  if (slot != nullptr && begin != slot->begin + slot->read + static_cast<int32_t>(slot->ids.size()))
    forget(answer);  // the answer was restarted
  if (slot == nullptr || slot->answer == nullptr) {
    slot = find(nullptr);
    if (slot == nullptr) return;
    slot->answer = answer;
    slot->sequence = session_.open();
    slot->begin = begin;
  }
  slot->ids.insert(slot->ids.end(), ids.begin(), ids.end());
  slot->hidden.insert(slot->hidden.end(), hidden.begin(), hidden.end());
  if (slot->ids.size() > kMostWaiting) read(*slot, 1);
}

// Runs all waiting tokens except the last `kept`.
void HeadDraft::read(Slot& slot, size_t kept) {
  const auto dim = static_cast<size_t>(model_.config().dim);
  const size_t count = slot.ids.size() - std::min(kept, slot.ids.size());
  const auto most = static_cast<size_t>(session_.most_rows());
  for (size_t begin = 0; begin < count; begin += most) {
    const size_t rows = std::min(most, count - begin);
    RunPart part = part_of(slot.sequence, std::span(slot.ids).subspan(begin, rows),
                           std::span(slot.hidden).subspan(begin * dim, rows * dim));
    part.outputs = 0;
    session_.run({&part, 1});
  }
  slot.read += static_cast<int32_t>(count);
  slot.ids.erase(slot.ids.begin(), slot.ids.begin() + static_cast<ptrdiff_t>(count));
  slot.hidden.erase(slot.hidden.begin(), slot.hidden.begin() + static_cast<ptrdiff_t>(count * dim));
}

// A run of tokens that gives the most probable next one and its hidden state.
RunPart HeadDraft::part_of(int32_t sequence, std::span<const int32_t> ids,
                           std::span<const float> hidden) const {
  return {.sequence = sequence,
          .ids = ids,
          .wants = Wants::kBest,
          .features = hidden,
          .roots = {&hidden_, 1}};
}

// Makes the first token of each draft, for answers all of whose tokens were shown.
bool HeadDraft::begin(std::span<DraftRequest> requests) {
  parts_.clear();
  drafting_.clear();
  size_t room = static_cast<size_t>(session_.most_rows());
  for (DraftRequest& request : requests) {
    request.draft.clear();
    Slot* const slot = request.answer == nullptr ? nullptr : find(request.answer);
    if (slot == nullptr || slot->ids.empty() || request.most <= 0) continue;
    const auto shown = static_cast<size_t>(slot->begin + slot->read) + slot->ids.size();
    if (shown + 1 != request.tokens.size() || room == 0) continue;
    request.most = std::min(request.most, session_.context() - static_cast<int32_t>(shown));
    if (request.most <= 0) continue;
    if (slot->ids.size() > room) read(*slot, 1);
    room -= slot->ids.size();
    parts_.push_back(part_of(slot->sequence, slot->ids, slot->hidden));
    drafting_.push_back({&request, slot});
  }
  if (parts_.empty()) return false;
  session_.run(parts_);
  for (const Drafting& d : drafting_) {
    d.slot->read += static_cast<int32_t>(d.slot->ids.size());
    d.slot->ids.clear();
    d.slot->hidden.clear();
  }
  take_drafts();
  return true;
}

void HeadDraft::take_drafts() {
  for (size_t i = 0; i < drafting_.size(); ++i) {
    const auto output = static_cast<int32_t>(i);
    drafting_[i].request->draft.push_back(session_.best(output));
    const std::span<const float> hidden = session_.row(hidden_, output);
    drafting_[i].slot->drafted.assign(hidden.begin(), hidden.end());
  }
}

// Adds a token to each draft that is not complete. Returns false if all are.
bool HeadDraft::extend() {
  std::erase_if(drafting_,
                [](const Drafting& d) { return std::ssize(d.request->draft) >= d.request->most; });
  if (drafting_.empty()) return false;
  parts_.clear();
  for (const Drafting& d : drafting_)
    parts_.push_back(
        part_of(d.slot->sequence, std::span(d.request->draft).last(1), d.slot->drafted));
  session_.run(parts_);
  take_drafts();
  return true;
}

void HeadDraft::propose(std::span<DraftRequest> requests) {
  if (!begin(requests)) return;
  const std::vector<Drafting> begun = drafting_;
  const double start = seconds_now();
  int64_t runs = 0;
  while (extend()) ++runs;
  time_.record(seconds_now() - start, runs);
  // Only tokens with hidden states of the model itself stay in the sequences.
  for (const Drafting& d : begun) session_.rewind(d.slot->sequence, d.slot->read);
}

}  // namespace veery
