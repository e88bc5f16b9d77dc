// model_draft.h: drafts by a smaller model (draft.h says what becomes of them).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "schedule/draft.h"

namespace veery {

/// Proposes the tokens that a smaller model finds most probable, for several answers at a time. Not
/// thread-safe. The model has no other user meanwhile.
class ModelDraft : public DraftMaker {
 public:
  /// For so many answers at a time.
  static RunnerOptions runner_options(const Model& model, int32_t slots);
  /// `target`: the model whose answers it drafts; `options`: those of runner_options(). Throws
  /// kInput, naming the first token that differs, where the vocabularies of both are not the same.
  ModelDraft(const Model& target, std::shared_ptr<Model> model, const RunnerOptions& options);
  const Runner& runner() const { return runner_; }

  /// Sets the drafts of at most `slots` requests. A draft is empty as long as the model has not
  /// read all of a long prompt: each call reads a run of it.
  void propose(std::span<DraftRequest> requests) override;
  double seconds_each() const override { return time_.value(); }

 private:
  struct Slot {
    const void* answer = nullptr;
    int32_t sequence = -1;
    uint64_t used = 0;
    std::vector<int32_t> ids;  ///< that its sequence holds
  };

  struct Drafting {
    DraftRequest* request;
    Slot* slot;
  };

  Slot& slot_of(const DraftRequest& request);
  bool read(const DraftRequest& request, Slot& slot, int32_t& room);
  void begin(std::span<DraftRequest> requests);
  bool extend();

  std::shared_ptr<Model> model_;
  Runner runner_;
  std::vector<Slot> slots_;
  int64_t vocab_;
  std::vector<Drafting> drafting_;
  std::vector<RunPart> parts_;
  uint64_t clock_ = 0;
  DraftTime time_;
};

}  // namespace veery
