// encoder.h: runs an entry without KV cache on batches of whole sequences.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/activation_bytes.h"
#include "engine/model.h"

namespace veery {

/// The tokens of one sequence. `types`: the index of the text that each token belongs to, in a pair
/// of texts; empty: all 0.
struct TokenSequence {
  std::span<const int32_t> ids;
  std::span<const int32_t> types;
};

/// Not thread-safe; others may use the same executor on other threads. The model must outlive it.
class Encoder {
 public:
  /// `root`: name of the root of the model's entry to compute.
  Encoder(Model& model, std::string root);

  /// Allocates the memory for runs of up to `rows` tokens.
  void reserve(int64_t rows);
  /// Returns the bytes of the workspaces that were reserved or that plans have demanded.
  ActivationBytes activation_bytes() const;

  /// Runs the sequences together, one row per token, without padding. Throws kInput for an id
  /// outside of the vocabulary, a type outside of the model's table, a number of types other than
  /// that of the tokens, or an empty sequence; kLimit for one longer than the context.
  void run(std::span<const TokenSequence> sequences);
  /// Returns row `i` of the root after the last run: one per sequence or one per token.
  std::span<const float> row(int64_t i) const;

  /// Returns the plan for runs of up to `rows` tokens and `sequences` sequences, building it on
  /// first use. Call it after a run; it is valid until the next run or call.
  Plan& plan(int64_t rows, int64_t sequences);

 private:
  PlanOptions plan_options(int64_t rows, int64_t sequences) const;
  void grow_block(int64_t rows);
  void fill_block(std::span<const TokenSequence> sequences, int64_t rows);

  Model& model_;
  std::string root_;
  std::unique_ptr<RunBlock> block_;
  std::deque<Workspace> workspaces_;  ///< one per place of the model
  std::vector<Arena*> arenas_;        ///< of the workspaces, for Turn
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Plan>> plans_;
  const Plan* last_ = nullptr;
};

}  // namespace veery
