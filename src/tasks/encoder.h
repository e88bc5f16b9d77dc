// encoder.h: runs an entry that has no cache on batches of whole sequences.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/model.h"

namespace veery {

/// The tokens of one sequence. `types`: which text of a pair each is of; empty: all of the first.
struct TokenSequence {
  std::span<const int32_t> ids;
  std::span<const int32_t> types;
};

/// Not for several threads at once. The model must outlive it.
class Encoder {
 public:
  /// `root`: what is wanted of the model's entry.
  Encoder(Model& model, std::string root);

  /// Takes the memory for runs of up to so many tokens at once.
  void reserve(int64_t rows);
  /// Of the workspaces, as far as they were reserved or plans took them.
  size_t activation_bytes() const;

  /// Runs the sequences together, one row a token and no padding. Throws kInput for an id outside
  /// of the vocabulary, a type outside of the model's table, types that are not one for each token
  /// or a sequence without tokens, kLimit for one that is longer than the context.
  void run(std::span<const TokenSequence> sequences);
  /// Row `i` of the last run's root: one for each sequence, or one for each token.
  std::span<const float> row(int64_t i) const;

  /// The plan for runs of up to so many tokens and sequences, made when first needed, after a run.
  Plan& plan(int64_t rows, int64_t sequences);

 private:
  PlanOptions plan_options(int64_t rows, int64_t sequences) const;
  void grow_block(int64_t rows);
  void fill_block(std::span<const TokenSequence> sequences, int64_t rows);

  Model& model_;
  std::string root_;
  std::unique_ptr<RunBlock> block_;
  std::deque<Workspace> workspaces_;  ///< of each place of the model
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Plan>> plans_;
  const Plan* last_ = nullptr;
};

}  // namespace veery
