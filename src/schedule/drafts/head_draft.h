// head_draft.h: drafts by the multi-token prediction (MTP) head of a model; see draft.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/session.h"
#include "schedule/drafts/draft.h"

namespace veery {

/// Drafts tokens for several answers at a time from the hidden states of the model. The layer of
/// the head attends only to tokens that it was shown, so tokens of a cached prefix are missing. Not
/// thread-safe.
class HeadDraft : public DraftMaker {
 public:
  /// The root of the model's entry whose rows are passed to show().
  static constexpr const char* kRoot = "rows";
  /// Whether `model` has an MTP head and runs on the CPU, where the head is supported.
  static bool possible(const Model& model);

  /// Returns the model of the head; loads only the weights that `target` does not have. Throws
  /// kUnsupported if possible() is false. `target` must outlive it.
  static std::unique_ptr<Model> make_model(const Model& target);
  /// Returns the options for `slots` answers at a time.
  static SessionOptions session_options(const Model& target, int32_t slots);
  /// `model`: from make_model(), must outlive it; `options`: from session_options().
  HeadDraft(Model& model, const SessionOptions& options);
  const Session& session() const { return session_; }

  /// Passes hidden states of an answer, `hidden` [ids, dim], from position `begin` on. ids[i] is
  /// the token that follows the position of row i.
  void show(const void* answer, int32_t begin, std::span<const int32_t> ids,
            std::span<const float> hidden);
  void forget(const void* answer);
  void propose(std::span<DraftRequest> requests) override;
  double seconds_each() const override { return time_.value(); }

 private:
  struct Slot {
    const void* answer = nullptr;
    int32_t sequence = -1;
    int32_t begin = 0;           ///< position of the first token of its sequence
    int32_t read = 0;            ///< tokens in the KV cache of its sequence
    std::vector<int32_t> ids;    ///< tokens that are still to be run
    std::vector<float> hidden;   ///< their hidden states
    std::vector<float> drafted;  ///< hidden state of the last draft token
  };
  struct Drafting {
    DraftRequest* request;
    Slot* slot;
  };

  static constexpr const char* kHidden = "hidden";  ///< root of the head's entry

  Slot* find(const void* answer);
  RunPart part_of(int32_t sequence, std::span<const int32_t> ids,
                  std::span<const float> hidden) const;
  void read(Slot& slot, size_t kept);
  bool begin(std::span<DraftRequest> requests);
  bool extend();
  void take_drafts();

  Model& model_;
  Session session_;
  RootId hidden_;
  std::vector<Slot> slots_;
  std::vector<Drafting> drafting_;
  std::vector<RunPart> parts_;
  DraftTime time_;
};

}  // namespace veery
