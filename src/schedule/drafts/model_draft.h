// model_draft.h: drafts by a smaller model; see draft.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/session.h"
#include "schedule/drafts/draft.h"

namespace veery {

/// Drafts the most probable tokens of a smaller model, for several answers at a time. Not
/// thread-safe. The model must have no other user.
class ModelDraft : public DraftMaker {
 public:
  /// Returns the options for `slots` answers at a time.
  static SessionOptions session_options(const Model& model, int32_t slots);
  /// `target`: the model whose answers it drafts; `options`: from session_options(). Throws kInput,
  /// naming the first token that differs, if the two vocabularies differ.
  ModelDraft(const Model& target, std::shared_ptr<Model> model, const SessionOptions& options);
  const Session& session() const { return session_; }

  /// Sets the drafts of at most `slots` requests. Each call runs one prefill chunk of a long
  /// prompt; the draft is empty until all of the prompt was run. If it throws, all sequences are
  /// forgotten.
  void propose(std::span<DraftRequest> requests) override;
  double seconds_each() const override { return time_.value(); }

 private:
  struct Slot {
    const void* answer = nullptr;
    int32_t sequence = -1;
    uint64_t used = 0;
    std::vector<int32_t> ids;  ///< tokens of its sequence
  };

  struct Drafting {
    DraftRequest* request;
    Slot* slot;
  };

  Slot& slot_of(const DraftRequest& request);
  bool read(const DraftRequest& request, Slot& slot, int32_t& room);
  void begin(std::span<DraftRequest> requests);
  bool extend();
  void forget_all();

  std::shared_ptr<Model> model_;
  Session session_;
  std::vector<Slot> slots_;
  int64_t vocab_;
  std::vector<Drafting> drafting_;
  std::vector<RunPart> parts_;
  uint64_t clock_ = 0;
  DraftTime time_;
};

}  // namespace veery
