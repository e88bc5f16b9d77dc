// merge.h: the merge loop of BPE: merges the best pair of neighbours until none can be merged.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace veery {

/// A part [begin, end) of the text and its token; id -1: no token.
struct TextSymbol {
  int32_t id = -1;
  uint32_t begin = 0, end = 0;
};

/// A possible merge of two neighbours. Lower priority values merge first; ties merge leftmost
/// first.
struct Join {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  uint32_t priority = kNever;
  int32_t id = -1;
};

/// Working memory of join_symbols(), reused across words.
struct JoinScratch {
  struct Candidate {
    uint32_t priority, left;
    uint32_t end;  ///< `end` of the right part; the candidate is outdated if it has changed
    int32_t id;
  };
  std::vector<Candidate> heap;
  std::vector<uint32_t> previous, next;
};

/// Quadratic time without a heap; faster for short words.
template <typename JoinOf>
size_t join_few(std::span<TextSymbol> symbols, const JoinOf& join_of) {
  constexpr size_t kMost = 32;
  std::array<Join, kMost> joins;
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) joins[i] = join_of(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (joins[i].priority < joins[best].priority) best = i;
    if (joins[best].priority == Join::kNever) break;
    symbols[best] = {joins[best].id, symbols[best].begin, symbols[best + 1].end};
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(count),
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    --count;
    for (size_t i = best + 1; i + 1 < count; ++i) joins[i] = joins[i + 1];
    if (best > 0) joins[best - 1] = join_of(symbols[best - 1], symbols[best]);
    if (best + 1 < count) joins[best] = join_of(symbols[best], symbols[best + 1]);
  }
  return count;
}

/// O(n log n) with a heap of candidates; outdated candidates are skipped.
template <typename JoinOf>
size_t join_many(std::span<TextSymbol> symbols, const JoinOf& join_of, JoinScratch& scratch) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  const auto count = static_cast<uint32_t>(symbols.size());
  // Not a structured binding: Clang before 16 cannot capture one.
  auto& heap = scratch.heap;
  auto& previous = scratch.previous;
  auto& next = scratch.next;
  previous.resize(count);
  next.resize(count);
  heap.clear();
  const auto later = [](const JoinScratch::Candidate& a, const JoinScratch::Candidate& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.left > b.left;
  };
  const auto consider = [&](uint32_t left, uint32_t right) {
    const Join join = join_of(symbols[left], symbols[right]);
    if (join.priority == Join::kNever) return false;
    heap.push_back({join.priority, left, symbols[right].end, join.id});
    return true;
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 < count ? i + 1 : kNone;
    if (i > 0) consider(i - 1, i);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto push = [&](uint32_t left, uint32_t right) {
    if (left != kNone && right != kNone && consider(left, right))
      std::push_heap(heap.begin(), heap.end(), later);
  };
  std::vector<bool> gone(count);
  while (!heap.empty()) {
    const JoinScratch::Candidate candidate = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    const uint32_t left = candidate.left;
    if (gone[left] || next[left] == kNone || symbols[next[left]].end != candidate.end) continue;
    const uint32_t right = next[left];
    symbols[left] = {candidate.id, symbols[left].begin, candidate.end};
    gone[right] = true;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    push(previous[left], left);
    push(left, next[left]);
  }
  size_t kept = 0;
  for (uint32_t at = 0; at != kNone; at = next[at]) symbols[kept++] = symbols[at];
  return kept;
}

/// Merges neighbours until no pair can be merged. Returns the number of remaining symbols, which
/// are at the front of `symbols`.
template <typename JoinOf>
size_t join_symbols(std::span<TextSymbol> symbols, const JoinOf& join_of, JoinScratch& scratch) {
  if (symbols.size() < 2) return symbols.size();
  return symbols.size() <= 32 ? join_few(symbols, join_of) : join_many(symbols, join_of, scratch);
}

}  // namespace veery
