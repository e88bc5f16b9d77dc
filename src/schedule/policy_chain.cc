// When and for how long answers decode as a chain on the device.
#include <algorithm>

#include "schedule/policy.h"

namespace veery {
namespace {

constexpr int32_t kShortChain = 8;     // tokens of a chain if decode steps are not measured yet
constexpr int32_t kMostChained = 128;  // tokens of a chain, at most
constexpr double kChainShare = 0.25;   // of the longest step, for chains above kShortChain

}  // namespace

// Returns the number of chained tokens per answer. New requests wait for the end of a chain and its
// text arrives in one piece, so a chain takes only a part of the longest step, unless all answers
// are read as a whole.
int32_t Policy::chain_tokens(const Batch& batch, int32_t most) const {
  if (std::ranges::all_of(batch.jobs, [](Job* job) { return job->request().whole; })) return most;
  const int32_t few = std::min(most, kShortChain);
  if (seconds_per_step_ <= 0) return few;
  if (seconds_per_step_ * few > options_.longest_step) return 0;
  const double count = kChainShare * options_.longest_step / seconds_per_step_;
  return count >= most ? most : std::max(static_cast<int32_t>(count), few);
}

// Tokens after the end of an answer must be undone, so each sequence must allow that.
bool Policy::limit_chain(Batch& batch, int32_t most) const {
  int32_t longest = 0;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const int32_t sequence = batch.parts[i].sequence;
    int32_t& own = batch.chain[i].most;
    own = std::min(own, most);
    while (own > 1 && !session_.can_undo(sequence, own)) own /= 2;
    if (!session_.can_undo(sequence, own)) return false;
    longest = std::max(longest, own);
  }
  return longest > 1 && session_.fits(batch.parts, longest);
}

bool Policy::compose_chain(Batch& batch) {
  batch.chain.clear();
  if (!waiting_.empty()) return false;
  int32_t longest = 0;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    if (batch.parts[i].ids.size() != 1 || batch.parts[i].outputs != 1) return false;
    const auto row = batch.jobs[i]->chain_row(kMostChained, session_.context());
    if (!row) return false;
    batch.chain.push_back(*row);
    longest = std::max(longest, row->most);
  }
  if (longest < 2) return false;
  const bool draws = !std::ranges::all_of(batch.chain, &ChainRow::greedy);
  const int32_t most = chain_tokens(batch, session_.chain_steps(batch.parts, draws));
  return limit_chain(batch, most);
}

}  // namespace veery
