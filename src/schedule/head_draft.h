// head_draft.h: drafts by the layer of a model that predicts one token further (multi-token
// prediction; draft.h says what becomes of drafts).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "schedule/draft.h"

namespace veery {

/// Proposes tokens for several answers at a time, from the hidden states that the model gave of
/// their tokens. Its layer attends to the tokens it was shown: those of a prompt that were found in
/// the caches are not among them. Not thread-safe.
class HeadDraft : public DraftMaker {
 public:
  /// The root of the model's entry that show() takes rows of.
  static constexpr const char* kRoot = "rows";
  /// Whether `model` has such a layer and runs where it can be used, on the CPU.
  static bool possible(const Model& model);

  /// The model of the layer: loads what only that has. Throws kUnsupported where possible() is
  /// false. `target` must outlive it.
  static std::unique_ptr<Model> make_model(const Model& target);
  /// For so many answers at a time.
  static RunnerOptions runner_options(const Model& target, int32_t slots);
  /// `model`: that of make_model(), which must outlive it; `options`: those of runner_options().
  HeadDraft(Model& model, const RunnerOptions& options);
  const Runner& runner() const { return runner_; }

  /// The model was run on tokens of an answer from position `begin` on and gave the hidden states
  /// `hidden` of them, [ids, dim]; `ids`: the token behind each.
  void show(const void* answer, int32_t begin, std::span<const int32_t> ids,
            std::span<const float> hidden);
  void forget(const void* answer);
  void propose(std::span<DraftRequest> requests) override;
  double seconds_each() const override { return time_.value(); }

 private:
  struct Slot {
    const void* answer = nullptr;
    int32_t sequence = -1;
    int32_t begin = 0;           ///< position of its first token
    int32_t read = 0;            ///< tokens that its sequence holds
    std::vector<int32_t> ids;    ///< still to be read
    std::vector<float> hidden;   ///< of them
    std::vector<float> drafted;  ///< of the last token of a draft
  };
  struct Drafting {
    DraftRequest* request;
    Slot* slot;
  };

  Slot* find(const void* answer);
  void read(Slot& slot, size_t kept);
  bool begin(std::span<DraftRequest> requests);
  bool extend();
  void take_drafts();

  Model& model_;
  Runner runner_;
  std::vector<Slot> slots_;
  std::vector<Drafting> drafting_;
  std::vector<RunPart> parts_;
  DraftTime time_;
};

}  // namespace veery
