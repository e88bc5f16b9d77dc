#include "text/grammar/language/pattern.h"

#include "base/error.h"
#include "text/grammar/language/pattern_syntax.h"

namespace veery::schema {
namespace {

using Kind = PatternNode::Kind;

// Builds an automaton from the end of the pattern to its start, so that at a look-ahead the
// language of everything after it is already known.
class Builder {
 public:
  Builder() : end_(nfa_.add_state()), rest_(nfa_.add_state()) {
    nfa_.add_edge(rest_, complement_set({}), rest_);
    nfa_.add_empty(rest_, end_);
  }

  Dfa found_anywhere(const PatternNode& node) {
    const int32_t start = nfa_.add_state();
    nfa_.add_edge(start, complement_set({}), start);
    nfa_.add_empty(start, add(node, rest_, false));
    return nfa_.determinize(start, end_, true);
  }
  Dfa found_here(const PatternNode& node, bool at_start) {
    return nfa_.determinize(add(node, rest_, at_start), end_, at_start);
  }

 private:
  // Returns the state from which `node` leads to `to`. `first`: the node begins at the start of the
  // text.
  int32_t add(const PatternNode& node, int32_t to, bool first) {
    switch (node.kind) {
      case Kind::kSet: {
        const int32_t from = nfa_.add_state();
        nfa_.add_edge(from, node.set, to);
        return from;
      }
      case Kind::kStart:
      case Kind::kEnd: {
        const int32_t from = nfa_.add_state();
        nfa_.add_empty(from, to,
                       node.kind == Kind::kStart ? Nfa::When::kAtStart : Nfa::When::kAtEnd);
        return from;
      }
      case Kind::kSequence: return add_sequence(node, to, first);
      case Kind::kChoice: {
        const int32_t from = nfa_.add_state();
        for (const PatternNode& item : node.items) nfa_.add_empty(from, add(item, to, first));
        return from;
      }
      case Kind::kRepeat: return add_repeat(node, to);
      case Kind::kLookAhead: return add_look_ahead(node, to, first);
    }
    return to;
  }

  int32_t add_sequence(const PatternNode& node, int32_t to, bool first) {
    for (size_t i = node.items.size(); i-- > 0;) {
      // Whether everything before the item reads nothing and contains '^'.
      bool starts = first;
      for (size_t j = 0; j < i; ++j) {
        if (node.items[j].kind == Kind::kStart)
          starts = true;
        else if (node.items[j].kind != Kind::kLookAhead) {
          starts = false;
          break;
        }
      }
      to = add(node.items[i], to, starts);
    }
    return to;
  }

  int32_t add_repeat(const PatternNode& node, int32_t to) {
    const PatternNode& item = node.items.front();
    int32_t from = to;
    if (node.most < 0) {
      from = nfa_.add_state();
      nfa_.add_empty(from, to);
      ++loops_;  // inside a loop the continuation of an item is not complete yet
      nfa_.add_empty(from, add(item, from, false));
      --loops_;
    }
    for (int32_t i = node.least; i < node.most; ++i) {
      from = add(item, from, false);
      nfa_.add_empty(from, to);
    }
    for (int32_t i = 0; i < node.least; ++i) from = add(item, from, false);
    return from;
  }

  int32_t add_look_ahead(const PatternNode& node, int32_t to, bool first) {
    if (loops_ > 0)
      throw Error(ErrorKind::kUnsupported,
                  "the pattern has a look-ahead inside a repetition, which is not supported");
    const Dfa seen = Builder().found_here(node.items.front(), first);
    const Dfa rest = nfa_.determinize(to, end_, first);
    return nfa_.add_dfa(node.negated ? subtract(rest, seen) : intersect(rest, seen), end_);
  }

  Nfa nfa_;
  int32_t end_, rest_;
  int32_t loops_ = 0;
};

}  // namespace

Dfa pattern_language(std::string_view pattern) {
  return Builder().found_anywhere(parse_pattern(pattern));
}

}  // namespace veery::schema
