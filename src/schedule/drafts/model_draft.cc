#include "schedule/drafts/model_draft.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "text/tokenizer.h"

namespace veery {
namespace {

constexpr int32_t kMostMissing = 128;  // tokens at the end of one vocabulary only

// One vocabulary may be longer, as some tables are padded with unused tokens.
void require_same_vocabulary(const Model& target, const Model& draft) {
  const Tokenizer& own = target.tokenizer();
  const Tokenizer& other = draft.tokenizer();
  if (std::abs(own.size() - other.size()) > kMostMissing)
    throw Error(ErrorKind::kInput,
                "{}: cannot draft for {}: its vocabulary has {} tokens, expected about {}",
                draft.path(), target.path(), other.size(), own.size());
  for (int32_t id = 0; id < std::min(own.size(), other.size()); ++id)
    if (own.token(id) != other.token(id))
      throw Error(ErrorKind::kInput, "{}: cannot draft for {}: its token {} is '{}', expected '{}'",
                  draft.path(), target.path(), id, escaped(other.token(id)),
                  escaped(own.token(id)));
}

// Recurrent states to keep per answer, so that a rejected draft can be undone. With large states
// fewer fit, and longer drafts run the tokens again.
int32_t kept_of(const Model& model, int32_t slots) {
  const size_t state = state_bytes(model.config()) * static_cast<size_t>(slots);
  if (state == 0) return 1;
  return static_cast<int32_t>(std::clamp<size_t>(kSnapshotBytes / state, 1, kMostDrafted + 1));
}

}  // namespace

SessionOptions ModelDraft::session_options(const Model& model, int32_t slots) {
  return {
      .sequences = slots, .snapshots = 2 * slots, .kept = kept_of(model, slots), .outputs = slots};
}

ModelDraft::ModelDraft(const Model& target, std::shared_ptr<Model> model,
                       const SessionOptions& options)
    : model_(std::move(model)),
      session_(*model_, options),
      slots_(static_cast<size_t>(options.sequences)),
      vocab_(target.config().vocab) {
  require_same_vocabulary(target, *model_);
}

// Returns the slot of the answer, else a free one or the least recently used one.
ModelDraft::Slot& ModelDraft::slot_of(const DraftRequest& request) {
  auto found = std::ranges::find(slots_, request.answer, &Slot::answer);
  if (found == slots_.end()) found = std::ranges::min_element(slots_, {}, &Slot::used);
  found->answer = request.answer;
  found->used = ++clock_;
  if (found->sequence < 0) found->sequence = session_.open();
  return *found;
}

// Adds a part with the tokens that the slot's sequence lacks. Returns true if it has all of them.
bool ModelDraft::read(const DraftRequest& request, Slot& slot, int32_t& room) {
  const auto tokens = request.tokens;
  const auto limit = static_cast<ptrdiff_t>(std::min(slot.ids.size(), tokens.size() - 1));
  const auto same = std::mismatch(slot.ids.begin(), slot.ids.begin() + limit, tokens.begin()).first;
  const auto kept = session_.nearest(slot.sequence, static_cast<int32_t>(same - slot.ids.begin()));
  session_.rewind(slot.sequence, kept);
  slot.ids.resize(static_cast<size_t>(kept));
  const auto rest = tokens.subspan(static_cast<size_t>(kept));
  const auto part = rest.first(std::min(rest.size(), static_cast<size_t>(room)));
  const auto unknown = [&](int32_t id) { return id >= model_->config().vocab; };
  if (part.empty() || std::ranges::any_of(part, unknown)) return false;
  const bool all = part.size() == rest.size();
  room -= static_cast<int32_t>(part.size());
  parts_.push_back({slot.sequence, part, all ? 1 : 0, Wants::kBest});
  slot.ids.insert(slot.ids.end(), part.begin(), part.end());
  return all;
}

// Makes the first token of each draft, for answers all of whose tokens are in the KV cache.
void ModelDraft::begin(std::span<DraftRequest> requests) {
  parts_.clear();
  drafting_.clear();
  int32_t room = session_.most_rows();
  for (DraftRequest& request : requests) {
    request.draft.clear();
    const int64_t left = session_.context() - std::ssize(request.tokens);
    request.most = static_cast<int32_t>(std::min<int64_t>(request.most, left));
    if (request.most <= 0) continue;
    Slot& slot = slot_of(request);
    if (read(request, slot, room)) drafting_.push_back({&request, &slot});
  }
  if (parts_.empty()) return;
  session_.run(parts_);
  for (size_t i = 0; i < drafting_.size(); ++i)
    drafting_[i].request->draft.push_back(session_.best(static_cast<int32_t>(i)));
}

// Adds a token to each draft that is not complete. Returns false if all are.
bool ModelDraft::extend() {
  std::erase_if(drafting_,
                [](const Drafting& d) { return std::ssize(d.request->draft) >= d.request->most; });
  if (drafting_.empty()) return false;
  parts_.clear();
  for (const Drafting& d : drafting_) {
    parts_.push_back({d.slot->sequence, std::span(d.request->draft).last(1), 1, Wants::kBest});
    d.slot->ids.push_back(d.request->draft.back());
  }
  session_.run(parts_);
  for (size_t i = 0; i < drafting_.size(); ++i)
    drafting_[i].request->draft.push_back(session_.best(static_cast<int32_t>(i)));
  return true;
}

// A slot lists tokens before they are run, so a failed run leaves it wrong.
void ModelDraft::forget_all() {
  for (Slot& slot : slots_)
    if (slot.sequence >= 0) session_.close(slot.sequence);
  std::ranges::fill(slots_, Slot());
}

void ModelDraft::propose(std::span<DraftRequest> requests) {
  VEERY_CHECK(requests.size() <= slots_.size());
  double begun = 0;
  int64_t runs = 0;
  try {
    begin(requests);
    begun = seconds_now();
    while (extend()) ++runs;
  } catch (...) {
    forget_all();
    throw;
  }
  time_.record(seconds_now() - begun, runs);
  for (DraftRequest& request : requests) {
    const auto known =
        std::ranges::find_if(request.draft, [&](int32_t id) { return id >= vocab_; });
    request.draft.erase(known, request.draft.end());
  }
}

}  // namespace veery
