#include "text/grammar/language/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"

namespace veery::schema {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
// Limits the time of a subset construction: the total number of elements of all sets.
constexpr size_t kMostWork = 4'000'000;

[[noreturn]] void fail_size() {
  throw Error(ErrorKind::kLimit, "the pattern needs more than {} states", Dfa::kMostStates);
}

using Edge = Dfa::Edge;
using State = Dfa::State;

void sort_edges(std::vector<Edge>& edges) {
  std::ranges::sort(edges, {}, &Edge::low);
  std::vector<Edge> joined;
  for (const Edge& edge : edges) {
    if (!joined.empty() && joined.back().target == edge.target &&
        joined.back().high + 1 == edge.low)
      joined.back().high = edge.high;
    else
      joined.push_back(edge);
  }
  edges = std::move(joined);
}

int32_t target_of(const State& state, char32_t code) {
  const auto after = std::ranges::upper_bound(state.edges, code, {}, &Edge::low);
  if (after == state.edges.begin()) return -1;
  const Edge& edge = *(after - 1);
  return code <= edge.high ? edge.target : -1;
}

// Returns the states that are reachable and can reach an accepting state, plus the start state.
std::vector<State> live_states(const std::vector<State>& states) {
  std::vector<char> reached(states.size()), alive(states.size());
  std::vector<std::vector<int32_t>> before(states.size());
  std::vector<int32_t> stack{0};
  reached[0] = 1;
  while (!stack.empty()) {
    const int32_t from = stack.back();
    stack.pop_back();
    for (const Edge& edge : states[static_cast<size_t>(from)].edges) {
      before[static_cast<size_t>(edge.target)].push_back(from);
      if (!std::exchange(reached[static_cast<size_t>(edge.target)], 1))
        stack.push_back(edge.target);
    }
  }
  for (size_t i = 0; i < states.size(); ++i)
    if (reached[i] && states[i].accepts) alive[i] = 1, stack.push_back(static_cast<int32_t>(i));
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    for (const int32_t from : before[at])
      if (!std::exchange(alive[static_cast<size_t>(from)], 1)) stack.push_back(from);
  }
  std::vector<int32_t> number(states.size(), -1);
  int32_t count = 1;
  number[0] = 0;
  for (size_t i = 1; i < states.size(); ++i)
    if (alive[i]) number[i] = count++;
  std::vector<State> live(static_cast<size_t>(count));
  for (size_t i = 0; i < states.size(); ++i) {
    if (number[i] < 0) continue;
    State& state = live[static_cast<size_t>(number[i])];
    state.accepts = states[i].accepts;
    if (!alive[i]) continue;
    for (Edge edge : states[i].edges)
      if (alive[static_cast<size_t>(edge.target)])
        edge.target = number[static_cast<size_t>(edge.target)], state.edges.push_back(edge);
  }
  return live;
}

// Partitions the code points into classes ("letters") that no state distinguishes. Returns for each
// letter the target of each state; target states.size() is a rejecting sink.
std::vector<std::vector<int32_t>> letters_of(const std::vector<State>& states) {
  std::vector<char32_t> cuts{0};
  for (const State& state : states)
    for (const Edge& edge : state.edges) cuts.push_back(edge.low), cuts.push_back(edge.high + 1);
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  const auto sink = static_cast<int32_t>(states.size());
  std::vector<std::vector<std::pair<size_t, int32_t>>> columns(cuts.size());
  for (size_t s = 0; s < states.size(); ++s)
    for (const Edge& edge : states[s].edges) {
      auto i = static_cast<size_t>(std::ranges::lower_bound(cuts, edge.low) - cuts.begin());
      for (; i < cuts.size() && cuts[i] <= edge.high; ++i) columns[i].emplace_back(s, edge.target);
    }
  std::set<std::vector<std::pair<size_t, int32_t>>> distinct(columns.begin(), columns.end());
  std::vector<std::vector<int32_t>> letters;
  for (const auto& column : distinct) {
    if (column.empty()) continue;
    std::vector<int32_t> targets(states.size() + 1, sink);
    for (const auto& [state, target] : column) targets[state] = target;
    letters.push_back(std::move(targets));
  }
  return letters;
}

// Hopcroft's partition refinement. Returns the block of each state.
std::vector<int32_t> blocks_of(const std::vector<State>& states) {
  const std::vector<std::vector<int32_t>> letters = letters_of(states);
  const size_t count = states.size() + 1;
  std::vector<std::vector<std::vector<int32_t>>> sources(letters.size());
  for (size_t l = 0; l < letters.size(); ++l) {
    sources[l].resize(count);
    for (size_t s = 0; s < count; ++s)
      sources[l][static_cast<size_t>(letters[l][s])].push_back(static_cast<int32_t>(s));
  }
  std::vector<std::vector<int32_t>> blocks(1);
  std::vector<int32_t> block(count, 0);
  std::vector<int32_t> accepting;
  for (size_t s = 0; s < count; ++s)
    (s < states.size() && states[s].accepts ? accepting : blocks[0])
        .push_back(static_cast<int32_t>(s));
  if (!accepting.empty()) {
    for (const int32_t s : accepting) block[static_cast<size_t>(s)] = 1;
    blocks.push_back(std::move(accepting));
  }
  std::deque<std::pair<int32_t, size_t>> work;
  for (int32_t b = 0; b < std::ssize(blocks); ++b)
    for (size_t l = 0; l < letters.size(); ++l) work.emplace_back(b, l);
  while (!work.empty()) {
    const auto [splitter, letter] = work.front();
    work.pop_front();
    std::map<int32_t, std::vector<int32_t>> touched;
    for (const int32_t s : blocks[static_cast<size_t>(splitter)])
      for (const int32_t from : sources[letter][static_cast<size_t>(s)])
        touched[block[static_cast<size_t>(from)]].push_back(from);
    for (auto& [old, part] : touched) {
      std::vector<int32_t>& whole = blocks[static_cast<size_t>(old)];
      if (part.size() == whole.size()) continue;
      const auto fresh = static_cast<int32_t>(blocks.size());
      for (const int32_t s : part) block[static_cast<size_t>(s)] = fresh;
      std::erase_if(whole, [&](int32_t s) { return block[static_cast<size_t>(s)] == fresh; });
      if (part.size() > whole.size()) {
        std::swap(part, whole);
        for (const int32_t s : whole) block[static_cast<size_t>(s)] = old;
        for (const int32_t s : part) block[static_cast<size_t>(s)] = fresh;
      }
      blocks.push_back(std::move(part));
      for (size_t l = 0; l < letters.size(); ++l) work.emplace_back(fresh, l);
    }
  }
  return block;
}

}  // namespace

CodeSet normal_set(CodeSet ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::low);
  CodeSet set;
  for (const CodeRange& range : ranges) {
    if (range.low > range.high) continue;
    if (!set.empty() && range.low <= set.back().high + 1)
      set.back().high = std::max(set.back().high, range.high);
    else
      set.push_back(range);
  }
  return set;
}

CodeSet complement_set(const CodeSet& set) {
  CodeSet rest, cover = set;
  cover.push_back({kFirstSurrogate, kLastSurrogate});
  char32_t next = 0;
  for (const CodeRange& range : normal_set(std::move(cover))) {
    if (range.low > next) rest.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCodePoint) rest.push_back({next, kLastCodePoint});
  return rest;
}

CodeSet intersect_sets(const CodeSet& a, const CodeSet& b) {
  CodeSet both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t low = std::max(a[i].low, b[j].low), high = std::min(a[i].high, b[j].high);
    if (low <= high) both.push_back({low, high});
    a[i].high < b[j].high ? ++i : ++j;
  }
  return both;
}

Dfa Dfa::none() { return minimal({State{}}); }

Dfa Dfa::all() {
  State state{.edges = {}, .accepts = true};
  for (const CodeRange& range : complement_set({}))
    state.edges.push_back({range.low, range.high, 0});
  return minimal({state});
}

Dfa Dfa::words(const std::vector<std::string>& words) {
  std::vector<std::map<char32_t, int32_t>> next(1);
  std::vector<char> ends(1);
  for (const std::string& word : words) {
    size_t at = 0;
    for (std::string_view rest = word; !rest.empty();) {
      const CodePoint code = next_code_point(rest);
      rest.remove_prefix(static_cast<size_t>(code.length));
      const auto [place, fresh] =
          next[at].try_emplace(code.value, static_cast<int32_t>(next.size()));
      at = static_cast<size_t>(place->second);
      if (fresh) next.emplace_back(), ends.push_back(0);
      if (next.size() > 64 * kMostStates) fail_size();
    }
    ends[at] = 1;
  }
  // Merges equal subtrees of the trie bottom-up. Children have larger numbers than their parents,
  // so each state is visited after its children, and the start comes last.
  std::map<std::pair<bool, std::vector<std::pair<char32_t, int32_t>>>, int32_t> numbers;
  std::vector<State> states;
  std::vector<int32_t> number(next.size());
  for (size_t s = next.size(); s-- > 0;) {
    std::vector<std::pair<char32_t, int32_t>> edges;
    for (const auto& [code, target] : next[s])
      edges.emplace_back(code, number[static_cast<size_t>(target)]);
    const bool accepts = ends[s] != 0;
    const auto [place, fresh] =
        numbers.try_emplace({accepts, edges}, static_cast<int32_t>(states.size()));
    number[s] = place->second;
    if (!fresh) continue;
    if (states.size() == kMostStates) fail_size();
    State& state = states.emplace_back(State{.edges = {}, .accepts = accepts});
    for (const auto& [code, target] : edges) state.edges.push_back({code, code, target});
  }
  const auto last = static_cast<int32_t>(states.size()) - 1;
  std::ranges::reverse(states);
  for (State& state : states)
    for (Edge& edge : state.edges) edge.target = last - edge.target;
  return minimal(std::move(states));
}

bool Dfa::is_all() const {
  if (states_.size() != 1 || !states_[0].accepts) return false;
  CodeSet set;
  for (const Edge& edge : states_[0].edges) set.push_back({edge.low, edge.high});
  return complement_set(normal_set(set)).empty();
}

bool Dfa::accepts(std::string_view text) const {
  int32_t at = 0;
  while (!text.empty()) {
    const CodePoint code = next_code_point(text);
    text.remove_prefix(static_cast<size_t>(code.length));
    at = target_of(states_[static_cast<size_t>(at)], code.value);
    if (at < 0) return false;
  }
  return states_[static_cast<size_t>(at)].accepts;
}

std::optional<int64_t> Dfa::shortest() const {
  std::vector<int64_t> distance(states_.size(), -1);
  std::deque<int32_t> queue{0};
  distance[0] = 0;
  while (!queue.empty()) {
    const auto at = static_cast<size_t>(queue.front());
    queue.pop_front();
    if (states_[at].accepts) return distance[at];
    for (const Edge& edge : states_[at].edges) {
      int64_t& next = distance[static_cast<size_t>(edge.target)];
      if (next < 0) next = distance[at] + 1, queue.push_back(edge.target);
    }
  }
  return {};
}

std::optional<std::vector<std::string>> Dfa::finite_words(size_t most) const {
  std::vector<std::string> found;
  struct Open {
    int32_t state;
    std::string text;
    size_t depth;
  };
  std::vector<Open> stack{{0, "", 0}};
  while (!stack.empty()) {
    const Open open = std::move(stack.back());
    stack.pop_back();
    if (open.depth > states_.size()) return {};  // the automaton has a cycle
    const State& state = states_[static_cast<size_t>(open.state)];
    if (state.accepts) found.push_back(open.text);
    if (found.size() > most) return {};
    for (const Edge& edge : state.edges) {
      if (edge.high - edge.low >= most || stack.size() > 4 * most) return {};
      for (char32_t code = edge.low; code <= edge.high; ++code) {
        std::string text = open.text;
        append_utf8(text, code);
        stack.push_back({edge.target, std::move(text), open.depth + 1});
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

Dfa Dfa::complement() const { return subtract(all(), *this); }

Dfa Dfa::minimal(std::vector<State> states) {
  for (State& state : states) sort_edges(state.edges);
  states = live_states(states);
  if (states.size() > 1 || !states[0].edges.empty()) {
    const std::vector<int32_t> block = blocks_of(states);
    std::vector<int32_t> number(states.size() + 1, -1);
    std::vector<size_t> order;
    const auto number_of = [&](int32_t state) {
      int32_t& id = number[static_cast<size_t>(block[static_cast<size_t>(state)])];
      if (id < 0)
        id = static_cast<int32_t>(order.size()), order.push_back(static_cast<size_t>(state));
      return id;
    };
    std::vector<State> small;
    number_of(0);
    for (size_t i = 0; i < order.size(); ++i) {
      State state = states[order[i]];
      for (Edge& edge : state.edges) edge.target = number_of(edge.target);
      sort_edges(state.edges);
      small.push_back(std::move(state));
    }
    states = std::move(small);
  }
  if (states.size() > kMostStates) fail_size();
  Dfa dfa;
  dfa.states_ = std::move(states);
  return dfa;
}

namespace {

// Product construction. A component of -1 is the rejecting sink; keep_a and keep_b say whether
// pairs remain useful after the other automaton has rejected.
template <typename Accepts>
Dfa product(const Dfa& a, const Dfa& b, bool keep_a, bool keep_b, const Accepts& accepts) {
  using Pair = std::pair<int32_t, int32_t>;
  std::map<Pair, int32_t> number;
  std::vector<Pair> order;
  std::vector<State> states;
  const auto number_of = [&](Pair pair) {
    const auto [place, fresh] = number.try_emplace(pair, static_cast<int32_t>(order.size()));
    if (fresh) order.push_back(pair);
    if (order.size() > 16 * Dfa::kMostStates) fail_size();
    return place->second;
  };
  static const State kSink;
  const auto state_of = [](const Dfa& dfa, int32_t id) -> const State& {
    return id < 0 ? kSink : dfa.states()[static_cast<size_t>(id)];
  };
  number_of({0, 0});
  for (size_t i = 0; i < order.size(); ++i) {
    const auto [x, y] = order[i];
    const State& left = state_of(a, x);
    const State& right = state_of(b, y);
    State state{.edges = {}, .accepts = accepts(left.accepts, right.accepts)};
    std::vector<char32_t> cuts;
    for (const State* side : {&left, &right})
      for (const Edge& edge : side->edges) cuts.push_back(edge.low), cuts.push_back(edge.high + 1);
    std::ranges::sort(cuts);
    cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      const Pair next{target_of(left, cuts[c]), target_of(right, cuts[c])};
      if ((next.first < 0 && !keep_b) || (next.second < 0 && !keep_a) ||
          (next.first < 0 && next.second < 0))
        continue;
      state.edges.push_back({cuts[c], cuts[c + 1] - 1, number_of(next)});
    }
    states.push_back(std::move(state));
  }
  return Dfa::minimal(std::move(states));
}

}  // namespace

Dfa intersect(const Dfa& a, const Dfa& b) {
  return product(a, b, false, false, [](bool x, bool y) { return x && y; });
}
Dfa unite(const Dfa& a, const Dfa& b) {
  return product(a, b, true, true, [](bool x, bool y) { return x || y; });
}
Dfa subtract(const Dfa& a, const Dfa& b) {
  return product(a, b, true, false, [](bool x, bool y) { return x && !y; });
}

Dfa with_length(const Dfa& a, int64_t least, int64_t most) {
  const int64_t counted = std::max(least, most + 1);
  if (counted * std::ssize(a.states()) > static_cast<int64_t>(16 * Dfa::kMostStates)) fail_size();
  std::vector<State> states;
  const auto count = static_cast<int32_t>(a.states().size());
  for (int64_t n = 0; n <= counted; ++n)
    for (const State& from : a.states()) {
      State state{.edges = {}, .accepts = from.accepts && n >= least && (most < 0 || n <= most)};
      const int64_t next = std::min(n + 1, counted);
      if (most < 0 || n < most)
        for (Edge edge : from.edges)
          edge.target += static_cast<int32_t>(next) * count, state.edges.push_back(edge);
      states.push_back(std::move(state));
    }
  return Dfa::minimal(std::move(states));
}

int32_t Nfa::add_state() {
  if (states_.size() >= kMostStates) fail_size();
  states_.emplace_back();
  return static_cast<int32_t>(states_.size()) - 1;
}

void Nfa::add_edge(int32_t from, const CodeSet& set, int32_t to) {
  for (const CodeRange& range : set)
    states_[static_cast<size_t>(from)].edges.push_back({range.low, range.high, to});
}

void Nfa::add_empty(int32_t from, int32_t to, When when) {
  states_[static_cast<size_t>(from)].empties.push_back({to, when});
}

int32_t Nfa::add_dfa(const Dfa& dfa, int32_t end) {
  const auto first = static_cast<int32_t>(states_.size());
  for (size_t i = 0; i < dfa.states().size(); ++i) add_state();
  for (size_t i = 0; i < dfa.states().size(); ++i) {
    State& state = states_[static_cast<size_t>(first) + i];
    for (Edge edge : dfa.states()[i].edges) edge.target += first, state.edges.push_back(edge);
    if (dfa.states()[i].accepts) state.empties.push_back({end, When::kAlways});
  }
  return first;
}

void Nfa::close(std::vector<int32_t>& set, bool at_start, bool at_end, std::vector<uint32_t>& seen,
                uint32_t mark) const {
  for (const int32_t state : set) seen[static_cast<size_t>(state)] = mark;
  for (size_t i = 0; i < set.size(); ++i)
    for (const Empty& empty : states_[static_cast<size_t>(set[i])].empties) {
      if ((empty.when == When::kAtStart && !at_start) || (empty.when == When::kAtEnd && !at_end))
        continue;
      if (std::exchange(seen[static_cast<size_t>(empty.target)], mark) != mark)
        set.push_back(empty.target);
    }
  std::ranges::sort(set);
}

Dfa Nfa::determinize(int32_t start, int32_t end, bool at_start) const {
  // The start set is keyed separately: only from it may kAtStart edges be taken.
  using Key = std::pair<bool, std::vector<int32_t>>;
  std::map<Key, int32_t> number;
  std::vector<const Key*> order;
  std::vector<Dfa::State> states;
  std::vector<uint32_t> seen(states_.size());
  uint32_t mark = 0;
  size_t work = 0;
  const auto number_of = [&](bool first, std::vector<int32_t> set) {
    close(set, first && at_start, false, seen, ++mark);
    work += set.size() + 1;
    const auto [place, fresh] =
        number.try_emplace(Key{first, std::move(set)}, static_cast<int32_t>(order.size()));
    if (fresh) order.push_back(&place->first);
    if (order.size() > 8 * Dfa::kMostStates || work > kMostWork) fail_size();
    return place->second;
  };
  number_of(true, {start});
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [first, set] = *order[i];
    Dfa::State state;
    std::vector<int32_t> last = set;
    close(last, first && at_start, true, seen, ++mark);
    state.accepts = std::ranges::binary_search(last, end);
    std::vector<Edge> all;
    for (const int32_t from : set) {
      const auto& edges = states_[static_cast<size_t>(from)].edges;
      all.insert(all.end(), edges.begin(), edges.end());
    }
    std::vector<char32_t> cuts;
    for (const Edge& edge : all) cuts.push_back(edge.low), cuts.push_back(edge.high + 1);
    std::ranges::sort(cuts);
    cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
    std::vector<std::vector<int32_t>> targets(cuts.size());
    for (const Edge& edge : all) {
      auto c = static_cast<size_t>(std::ranges::lower_bound(cuts, edge.low) - cuts.begin());
      for (; c < cuts.size() && cuts[c] <= edge.high; ++c) targets[c].push_back(edge.target);
      work += 1;
    }
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (targets[c].empty()) continue;
      std::ranges::sort(targets[c]);
      targets[c].erase(std::ranges::unique(targets[c]).begin(), targets[c].end());
      state.edges.push_back({cuts[c], cuts[c + 1] - 1, number_of(false, targets[c])});
    }
    states.push_back(std::move(state));
  }
  return Dfa::minimal(std::move(states));
}

}  // namespace veery::schema
