// automaton.h: regular languages over Unicode code points as finite automata, with union,
// intersection and complement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace veery::schema {

/// Code points from `low` to `high`, inclusive.
struct CodeRange {
  char32_t low = 0, high = 0;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};
/// Sorted, disjoint and non-adjacent ranges.
using CodeSet = std::vector<CodeRange>;

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

CodeSet normal_set(CodeSet ranges);
/// Returns the Unicode scalar values that `set` lacks; surrogates are in no set.
CodeSet complement_set(const CodeSet& set);
CodeSet intersect_sets(const CodeSet& a, const CodeSet& b);

/// A minimal deterministic automaton. State 0 is the start state; a code point without an edge is
/// rejected. No state is dead, except for the start state of the empty language.
class Dfa {
 public:
  struct Edge {
    char32_t low, high;
    int32_t target;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  struct State {
    std::vector<Edge> edges;  ///< sorted, disjoint
    bool accepts = false;
  };

  static Dfa none();
  static Dfa all();
  static Dfa words(const std::vector<std::string>& words);

  const std::vector<State>& states() const { return states_; }
  bool empty() const {
    return states_.size() == 1 && states_[0].edges.empty() && !states_[0].accepts;
  }
  bool is_all() const;
  bool accepts(std::string_view text) const;
  /// Returns the length of the shortest word in code points; nullopt if the language is empty.
  std::optional<int64_t> shortest() const;
  /// Returns all words, or nullopt if there are more than `most`.
  std::optional<std::vector<std::string>> finite_words(size_t most) const;

  Dfa complement() const;

  /// Builds the minimal automaton of arbitrary states. Throws kLimit above kMostStates.
  static Dfa minimal(std::vector<State> states);

  /// Maximum number of states after minimisation.
  static constexpr size_t kMostStates = 6000;

 private:
  std::vector<State> states_;
};

Dfa intersect(const Dfa& a, const Dfa& b);
Dfa unite(const Dfa& a, const Dfa& b);
/// Returns the words of `a` that are not words of `b`.
Dfa subtract(const Dfa& a, const Dfa& b);
/// Returns the words of `least` to `most` code points; `most` < 0: unbounded.
Dfa with_length(const Dfa& a, int64_t least, int64_t most);

/// A nondeterministic automaton under construction.
class Nfa {
 public:
  enum class When : uint8_t { kAlways, kAtStart, kAtEnd };

  int32_t add_state();
  void add_edge(int32_t from, const CodeSet& set, int32_t to);
  /// Adds an epsilon edge; `when` restricts it to the start or the end of the word.
  void add_empty(int32_t from, int32_t to, When when = When::kAlways);
  /// Adds the states of `dfa` and returns its start state. Accepting states get an epsilon edge to
  /// `end`.
  int32_t add_dfa(const Dfa& dfa, int32_t end);

  /// Subset construction. `at_start`: the word begins at the start of the text, which opens
  /// kAtStart edges. Throws kLimit if the language needs too many states.
  Dfa determinize(int32_t start, int32_t end, bool at_start) const;

  static constexpr size_t kMostStates = 40000;

 private:
  struct Empty {
    int32_t target;
    When when;
  };
  struct State {
    std::vector<Dfa::Edge> edges;
    std::vector<Empty> empties;
  };
  void close(std::vector<int32_t>& set, bool at_start, bool at_end, std::vector<uint32_t>& seen,
             uint32_t mark) const;

  std::vector<State> states_;
};

}  // namespace veery::schema
