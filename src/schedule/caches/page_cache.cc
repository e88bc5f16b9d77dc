#include "schedule/caches/page_cache.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/error.h"

namespace veery {
namespace {

constexpr auto kPage = static_cast<size_t>(kPagePositions);

int32_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<int32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

struct PageCache::Node {
  Node* parent = nullptr;  // nullptr: a root, which has no page
  int32_t begin = 0;       // position of the first token
  uint64_t hash = 0;       // of all tokens up to its end
  std::vector<int32_t> ids;
  int32_t page = -1;           // of the growing cache, if there is one
  int32_t users = 0;           // sequences
  int32_t children = 0;        // pages that follow
  Nodes::iterator place;       // in used_ or unused_
  std::vector<State*> states;  // by position

  int32_t end() const { return begin + static_cast<int32_t>(ids.size()); }
  bool full() const { return ids.size() == kPage; }
};

struct PageCache::State {
  Pages::State held;
  Node* node = nullptr;
  bool last = false;       // of the end of a sequence
  States::iterator place;  // in ends_ if `last`, else in snapshots_
};

uint64_t PageCache::hash_tokens(uint64_t before, std::span<const int32_t> ids) {
  uint64_t hash = before;
  for (const int32_t id : ids) {
    hash = (hash ^ static_cast<uint32_t>(id)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

PageCache::Probe PageCache::Order::probe(const Node* node) { return {node->parent, node->ids}; }

bool PageCache::Order::less(const Probe& a, const Probe& b) {
  if (a.parent != b.parent) return std::less<>()(a.parent, b.parent);
  return std::ranges::lexicographical_compare(a.ids, b.ids);
}

PageCache::PageCache(Pages& pages, HashTokens hash)
    : pages_(pages), needs_states_(pages.needs_states()), hash_(hash) {}

PageCache::~PageCache() {
  for (States* states : {&snapshots_, &ends_})
    for (State& state : *states) pages_.release_state(state.held);
  for (Nodes* nodes : {&used_, &unused_})
    for (Node& node : *nodes) pages_.release_page(node.page);
}

PageCache::Node* PageCache::root(const PrefixKey& key) {
  Nodes& root = roots_[key];
  if (root.empty()) {
    root.emplace_back();
    root.front().hash = hash_(static_cast<uint64_t>(key.adapter) * 2 + (key.extended ? 1 : 0), {});
  }
  return &root.front();
}

PageCache::Node* PageCache::child(const Node* parent, std::span<const int32_t> ids) const {
  const auto [begin, end] = index_.equal_range(hash_(parent->hash, ids));
  for (auto found = begin; found != end; ++found)
    if (found->second->parent == parent && std::ranges::equal(found->second->ids, ids))
      return found->second;
  return nullptr;
}

// Improves `best` if a sequence can continue after more tokens with the pages up to `node`, which
// equal the prompt up to `position`.
void PageCache::consider(Node* node, int32_t position, Tail& best) const {
  if (!needs_states_) {
    if (position > best.tokens) best = {node, nullptr, position};
    return;
  }
  for (State* state : node->states) {
    const int32_t tokens = pages_.usable(state->held, position);
    if (tokens > best.tokens) best = {node, state, tokens};
  }
}

// Finds the page after `parent` with the longest common beginning. In the order of their tokens,
// the common beginning gets shorter with the distance from the place of `rest`.
PageCache::Tail PageCache::match_tail(const Node* parent, std::span<const int32_t> rest) const {
  Tail best;
  const auto next = order_.lower_bound(Probe{parent, rest});
  const auto goes_on = [&](Node* node) {
    const int32_t same = node->parent == parent ? common_prefix(rest, node->ids) : 0;
    if (same == 0 || parent->end() + same <= best.tokens) return false;
    consider(node, parent->end() + same, best);
    return true;
  };
  for (auto node = next; node != order_.end() && goes_on(*node);) ++node;
  for (auto node = next; node != order_.begin() && goes_on(*std::prev(node));) --node;
  return best;
}

PageCache::Match PageCache::match(const PrefixKey& key, std::span<const int32_t> ids) const {
  Match match;
  const auto root = roots_.find(key);
  if (root == roots_.end() || root->second.empty()) return match;
  const Node* at = &root->second.front();
  for (; ids.size() >= kPage; ids = ids.subspan(kPage)) {
    Node* const next = child(at, ids.first(kPage));
    if (next == nullptr) break;
    match.path.push_back(next);
    at = next;
  }
  Tail best = match_tail(at, ids);
  for (size_t i = match.path.size(); i > 0 && best.tokens < match.path[i - 1]->end(); --i) {
    const int32_t before = best.tokens;
    consider(match.path[i - 1], match.path[i - 1]->end(), best);
    if (best.tokens > before) break;
  }
  match.tokens = best.tokens;
  match.last = best.node;
  match.state = best.state;
  // A state of a later page may be usable at the end of an earlier one.
  while (match.last != nullptr && match.last->begin >= match.tokens)
    match.last = match.last->parent;
  return match;
}

std::vector<int32_t> PageCache::pages_of(const Match& match) const {
  std::vector<int32_t> pages;
  for (const Node* node = match.last; node != nullptr && node->parent != nullptr;
       node = node->parent)
    pages.push_back(node->page);
  std::ranges::reverse(pages);
  return pages;
}

const Pages::State* PageCache::state_of(const Match& match) {
  return match.state == nullptr ? nullptr : &match.state->held;
}

std::vector<const Pages::State*> PageCache::states_of(const Match& match) {
  std::vector<const Pages::State*> states;
  for (const Node* node = match.last; node != nullptr; node = node->parent)
    for (size_t i = node->states.size(); i > 0; --i)
      if (node->states[i - 1]->held.position < match.tokens)
        states.push_back(&node->states[i - 1]->held);
  return states;
}

void PageCache::use(Node* node) {
  if (node->users++ == 0) used_.splice(used_.end(), unused_, node->place);
}

void PageCache::touch(const Match& match) {
  if (match.last != nullptr && match.last->users == 0)
    unused_.splice(unused_.end(), unused_, match.last->place);
  if (match.state == nullptr) return;
  States& states = match.state->last ? ends_ : snapshots_;
  states.splice(states.end(), states, match.state->place);
}

PageCache::Path PageCache::retain(const PrefixKey& key, std::span<Node* const> nodes) {
  Path path{key, {nodes.begin(), nodes.end()}};
  for (Node* const node : nodes) use(node);
  return path;
}

// Changes nothing if it throws std::bad_alloc, except that absorb() may be left out.
PageCache::Node* PageCache::insert(Node* parent, int32_t sequence, std::span<const int32_t> ids) {
  Nodes made;
  Node* const node = &made.emplace_back();
  node->parent = parent;
  node->begin = parent->end();
  node->hash = hash_(parent->hash, ids);
  node->ids.assign(ids.begin(), ids.end());
  const auto ordered = order_.insert(node).first;
  try {
    if (node->full()) index_.emplace(node->hash, node);
  } catch (...) {
    order_.erase(ordered);
    throw;
  }
  node->page = pages_.hold_page(sequence, node->begin / kPagePositions);
  node->place = made.begin();
  ++parent->children;
  unused_.splice(unused_.end(), made);
  absorb(node);
  return node;
}

// Removes cached pages that are a beginning of `node`, a page that follows the same one.
void PageCache::absorb(Node* node) {
  auto place = order_.find(node);
  while (place != order_.begin()) {
    Node* const other = *std::prev(place);
    if (other->parent != node->parent || other->full() || other->ids.size() > node->ids.size() ||
        !std::ranges::equal(other->ids, std::span(node->ids).first(other->ids.size())))
      return;
    node->states.insert(node->states.end(), other->states.begin(), other->states.end());
    for (State* const state : other->states) state->node = node;
    other->states.clear();
    std::ranges::sort(node->states, {}, [](const State* state) { return state->held.position; });
    erase(other);
  }
}

void PageCache::add_page(Path& path, int32_t sequence, std::span<const int32_t> ids) {
  Node* const parent = path.nodes.empty() ? root(path.key) : path.nodes.back();
  Node* node = child(parent, ids);
  if (node == nullptr) {
    node = insert(parent, sequence, ids);
  } else {
    // The sequence has computed the same page again. Holding its copy frees the other one.
    const int32_t own = pages_.hold_page(sequence, node->begin / kPagePositions);
    pages_.release_page(std::exchange(node->page, own));
  }
  path.nodes.push_back(node);
  use(node);
}

// Returns a page that begins with `ids`.
PageCache::Node* PageCache::add_tail(Node* parent, int32_t sequence, std::span<const int32_t> ids) {
  const auto next = order_.lower_bound(Probe{parent, ids});
  if (next != order_.end() && (*next)->parent == parent &&
      common_prefix(ids, (*next)->ids) == std::ssize(ids)) {
    if ((*next)->users == 0) unused_.splice(unused_.end(), unused_, (*next)->place);
    return *next;
  }
  return insert(parent, sequence, ids);
}

// Does nothing if the page has a state of this position already, except that it is used again.
void PageCache::add_state(Node* node, int32_t sequence, int32_t position, bool last) {
  const auto place = std::ranges::lower_bound(
      node->states, position, {}, [](const State* state) { return state->held.position; });
  if (place != node->states.end() && (*place)->held.position == position) {
    State& known = **place;
    States& from = known.last ? ends_ : snapshots_;
    States& to = known.last || last ? ends_ : snapshots_;
    to.splice(to.end(), from, known.place);
    known.last = known.last || last;
    return;
  }
  States made;
  State* const state = &made.emplace_back();
  node->states.insert(place, state);
  try {
    state->held = pages_.hold_state(sequence, position);
  } catch (...) {
    std::erase(node->states, state);
    throw;
  }
  state->node = node;
  state->last = last;
  state->place = made.begin();
  States& to = last ? ends_ : snapshots_;
  to.splice(to.end(), made);
}

// A sequence that ends at `end` went on where others ended: their states become snapshots.
void PageCache::supersede(const Path& path, Node* tail, int32_t end) {
  const auto supersede_in = [&](const Node* node) {
    for (State* const state : node->states)
      if (state->held.position < end && std::exchange(state->last, false))
        snapshots_.splice(snapshots_.end(), ends_, state->place);
  };
  std::ranges::for_each(path.nodes, supersede_in);
  if (tail != nullptr) supersede_in(tail);
}

void PageCache::release_with(Path& path, int32_t sequence, std::span<const int32_t> rest,
                             std::span<const int32_t> positions) {
  Node* tail = nullptr;
  try {
    Node* const last = path.nodes.empty() ? root(path.key) : path.nodes.back();
    if (!rest.empty()) tail = add_tail(last, sequence, rest);
    if (!positions.empty()) supersede(path, tail, positions.back());
    // Snapshots are evicted in their order here, so that those that are left keep equal distances.
    std::vector<size_t> order(positions.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [](size_t i) { return std::countr_zero(i + 1); });
    for (const size_t i : order) {
      const auto page = static_cast<size_t>((positions[i] - 1) / kPagePositions);
      Node* const node = page < path.nodes.size() ? path.nodes[page] : tail;
      add_state(node, sequence, positions[i], i + 1 == positions.size());
    }
  } catch (const std::bad_alloc&) {
    // The cache is consistent at every step.
  }
  release(path, tail);
}

// The later pages first, so that they are evicted first.
void PageCache::release(Path& path, Node* tail) {
  if (tail != nullptr) prune(tail);
  for (; !path.nodes.empty(); path.nodes.pop_back()) {
    Node* const node = path.nodes.back();
    if (--node->users > 0) continue;
    unused_.splice(unused_.end(), used_, node->place);
    prune(node);
  }
}

// Erases a page, and then those before it, if no sequence can continue from them.
void PageCache::prune(Node* node) {
  while (node->parent != nullptr && node->users == 0 && node->children == 0 && needs_states_ &&
         node->states.empty()) {
    Node* const parent = node->parent;
    erase(node);
    node = parent;
  }
}

void PageCache::erase(Node* node) {
  VEERY_CHECK(node->users == 0 && node->children == 0);
  while (!node->states.empty()) erase(node->states.back());
  const auto [begin, end] = index_.equal_range(node->hash);
  for (auto found = begin; found != end; ++found)
    if (found->second == node) {
      index_.erase(found);
      break;
    }
  order_.erase(node);
  pages_.release_page(node->page);
  --node->parent->children;
  unused_.erase(node->place);
}

void PageCache::erase(State* state) {
  std::erase(state->node->states, state);
  pages_.release_state(state->held);
  (state->last ? ends_ : snapshots_).erase(state->place);
}

bool PageCache::evict_page() {
  if (unused_.empty()) return false;
  Node* const node = &unused_.front();
  Node* const parent = node->parent;
  erase(node);
  prune(parent);
  return true;
}

// Snapshots within prefixes go first, then the positions before the ends of prefixes, then the
// ends.
bool PageCache::evict_state() {
  if (snapshots_.empty())
    for (State& state : ends_)
      if (pages_.trim_state(state.held)) return true;
  States& states = snapshots_.empty() ? ends_ : snapshots_;
  if (states.empty()) return false;
  Node* const node = states.front().node;
  erase(&states.front());
  prune(node);
  return true;
}

}  // namespace veery
