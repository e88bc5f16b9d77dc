// model_draft.h: drafts by a smaller model (draft.h says what becomes of them).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"

namespace veery {

/// Proposes the tokens that a smaller model finds most probable, for several answers at a time. Not
/// thread-safe. The model has no other user meanwhile.
class ModelDraft {
 public:
  /// `target`: the model whose answers it drafts; `slots`: answers at a time. Throws kInput, naming
  /// the first token that differs, where the vocabularies of both are not the same.
  ModelDraft(const Model& target, std::shared_ptr<Model> model, int32_t slots);

  struct Request {
    const void* answer = nullptr;  ///< the same for the same answer
    std::span<const int32_t> tokens;
    int32_t most = 0;  ///< tokens of a draft, 1 or more
    std::vector<int32_t> draft;
  };
  /// Sets the drafts of at most `slots` requests. A draft is empty as long as the model has not
  /// read all of a long prompt: each call reads a run of it.
  void propose(std::span<Request> requests);

  /// What a token of a draft took lately, in seconds; 0: not known yet.
  double seconds_each() const { return seconds_each_; }

 private:
  struct Slot {
    const void* answer = nullptr;
    int32_t sequence = -1;
    uint64_t used = 0;
    std::vector<int32_t> ids;  ///< that its sequence holds
  };

  struct Drafting {
    Request* request;
    Slot* slot;
  };

  Slot& slot_of(const Request& request);
  bool read(const Request& request, Slot& slot, int32_t& room);
  void begin(std::span<Request> requests);
  bool extend();

  std::shared_ptr<Model> model_;
  Runner runner_;
  std::vector<Slot> slots_;
  int64_t vocab_;
  std::vector<Drafting> drafting_;
  std::vector<RunPart> parts_;
  uint64_t clock_ = 0;
  double seconds_each_ = 0;
};

}  // namespace veery
