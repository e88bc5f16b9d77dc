// Converts automata to grammar rules: each state becomes a rule, each edge a tail call, and a run
// of states that read the same set becomes a repetition.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/schema/rules.h"

namespace veery::schema {
namespace {

constexpr size_t kMostStates = 3000;
constexpr int64_t kShortestRun = 3;

const CodeSet& plain_in_json() {
  static const CodeSet set = complement_set(normal_set({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  return set;
}

void append_code(std::string& text, char32_t code) {
  const bool plain = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
                     (code >= '0' && code <= '9') || code > 0x9F;
  if (plain)
    append_utf8(text, code);
  else
    text += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
}

std::string class_of(const CodeSet& set) {
  std::string text = "[";
  for (const CodeRange& range : set) {
    append_code(text, range.low);
    if (range.high > range.low) text += '-', append_code(text, range.high);
  }
  return text + "]";
}

// Returns alternatives that write one code point of a set: a class and, in JSON strings, escapes.
std::vector<std::string> pieces_of(const CodeSet& set, Writing writing, bool escapes_less) {
  if (writing == Writing::kPlain) return {class_of(set)};
  std::vector<std::string> pieces;
  const CodeSet whole = intersect_sets(set, plain_in_json());
  const CodeSet plain = escapes_less ? intersect_sets(whole, complement_set({{'<', '<'}})) : whole;
  if (!plain.empty()) pieces.push_back(class_of(plain));
  if (plain != whole) pieces.push_back("\"\\\\u003c\"");
  constexpr std::pair<char32_t, char> kShort[] = {
      {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
  const auto has = [&](char32_t code) { return !intersect_sets(set, {{code, code}}).empty(); };
  std::string letters;
  for (const auto& [code, letter] : kShort) {
    if (!has(code)) continue;
    if (letter == '"' || letter == '\\')
      letters += fmt::format("\\u{:04x}", static_cast<int>(letter));
    else
      letters += letter;
  }
  if (!letters.empty()) pieces.push_back("\"\\\\\" [" + letters + "]");
  std::string digits[2];
  for (char32_t code = 0; code < 0x20; ++code) {
    if (!has(code) || std::ranges::any_of(kShort, [&](const auto& p) { return p.first == code; }))
      continue;
    std::string& list = digits[code / 16];
    list += fmt::format("{:x}", static_cast<uint32_t>(code % 16));
    if (code % 16 > 9) list += fmt::format("{:X}", static_cast<uint32_t>(code % 16));
  }
  for (int high = 0; high < 2; ++high)
    if (!digits[high].empty())
      pieces.push_back(fmt::format("\"\\\\u00{}\" [{}]", high, digits[high]));
  return pieces;
}

}  // namespace

class StateWriter {
 public:
  StateWriter(const Dfa& dfa, Writing writing, Rules& rules)
      : dfa_(dfa), writing_(writing), rules_(rules), names_(dfa.states().size()) {
    incoming_.resize(dfa.states().size());
    for (size_t s = 0; s < dfa.states().size(); ++s)
      for (const auto& [target, set] : targets(s)) ++incoming_[static_cast<size_t>(target)];
    ++incoming_[0];
  }

  std::string start() {
    const std::string name = rule(0);
    for (size_t i = 0; i < todo_.size(); ++i) {
      const size_t state = todo_[i];
      rules_.define(names_[state], body(state));
    }
    return name;
  }

 private:
  // Returns the code points that lead to each target, ordered by target.
  std::map<int32_t, CodeSet> targets(size_t state) const {
    std::map<int32_t, CodeSet> found;
    for (const Dfa::Edge& edge : dfa_.states()[state].edges)
      found[edge.target].push_back({edge.low, edge.high});
    for (auto& [target, set] : found) set = normal_set(set);
    return found;
  }
  bool accepts(size_t state) const { return dfa_.states()[state].accepts; }
  bool is_all(size_t state) const {
    const auto next = targets(state);
    return accepts(state) && next.size() == 1 &&
           static_cast<size_t>(next.begin()->first) == state &&
           complement_set(next.begin()->second).empty();
  }
  std::vector<std::string> pieces(const CodeSet& set) const {
    return pieces_of(set, writing_, rules_.escapes_less());
  }
  std::string end() const { return writing_ == Writing::kPlain ? "\"\"" : "\"\\\"\""; }

  std::string rule(size_t state) {
    if (writing_ == Writing::kJsonString && is_all(state)) return rules_.string_rest();
    if (names_[state].empty()) names_[state] = rules_.reserve(), todo_.push_back(state);
    return names_[state];
  }

  struct Run {
    size_t last = 0;  ///< the state after the run
    int64_t length = 0;
    CodeSet set;
  };
  // Returns the run of states from `state` on that read the same set and differ only in their
  // distance from the end.
  Run run(size_t state, bool accepting) const {
    Run run{.last = state, .length = 0, .set = {}};
    while (accepts(run.last) == accepting && (run.length == 0 || incoming_[run.last] == 1)) {
      const auto next = targets(run.last);
      if (next.size() != 1 || static_cast<size_t>(next.begin()->first) == run.last) break;
      if (run.length > 0 && next.begin()->second != run.set) break;
      run.set = next.begin()->second;
      run.last = static_cast<size_t>(next.begin()->first);
      ++run.length;
      if (run.last == 0) break;
    }
    return run;
  }

  // Returns the expression for the text after an edge to `state`.
  std::string rest(size_t state) {
    if (writing_ == Writing::kJsonString && is_all(state)) return rules_.string_rest();
    const auto next = targets(state);
    if (accepts(state) && next.empty()) return end();
    if (incoming_[state] == 1 && next.size() == 1 && !accepts(state) &&
        static_cast<size_t>(next.begin()->first) != state) {
      const std::vector<std::string> one = pieces(next.begin()->second);
      const Run found = run(state, false);
      if (found.length >= kShortestRun) return rules_.times(one, found.length) + rest(found.last);
      if (one.size() == 1) return one[0] + " " + rest(static_cast<size_t>(next.begin()->first));
    }
    return rule(state);
  }

  std::string body(size_t state) {
    const Run optional = run(state, true);
    if (optional.length >= kShortestRun && accepts(optional.last) &&
        incoming_[optional.last] == 1 && dfa_.states()[optional.last].edges.empty())
      return rules_.up_to(pieces(optional.set), optional.length, end());
    const Run fixed = run(state, false);
    if (fixed.length >= kShortestRun)
      return rules_.times(pieces(fixed.set), fixed.length) + rest(fixed.last);
    std::string loop;
    std::vector<std::string> alternatives;
    const auto next = targets(state);
    const auto own = next.find(static_cast<int32_t>(state));
    std::vector<std::string> own_pieces;
    if (own != next.end()) own_pieces = pieces(own->second);
    if (!own_pieces.empty() && own_pieces[0].starts_with('[')) {
      loop = own_pieces[0] + "* ";
      own_pieces.erase(own_pieces.begin());
    }
    if (accepts(state)) alternatives.push_back(loop + end());
    for (const std::string& piece : own_pieces)
      alternatives.push_back(loop + piece + " " + rule(state));
    for (const auto& [target, set] : next) {
      if (static_cast<size_t>(target) == state) continue;
      for (const std::string& piece : pieces(set))
        alternatives.push_back(loop + piece + " " + rest(static_cast<size_t>(target)));
    }
    return fmt::format("{}", fmt::join(alternatives, " | "));
  }

  const Dfa& dfa_;
  Writing writing_;
  Rules& rules_;
  std::vector<std::string> names_;
  std::vector<int32_t> incoming_;
  std::vector<size_t> todo_;
};

namespace {

std::string key_of(const Dfa& dfa, Writing writing) {
  std::string key = writing == Writing::kPlain ? "p" : "j";
  for (const Dfa::State& state : dfa.states()) {
    key += state.accepts ? '+' : '-';
    for (const Dfa::Edge& edge : state.edges)
      key += fmt::format("{},{},{};", static_cast<uint32_t>(edge.low),
                         static_cast<uint32_t>(edge.high), edge.target);
  }
  return key;
}

}  // namespace

std::string Rules::string_of_length(const CodeSet& set, int64_t least, int64_t most) {
  const Pieces pieces = pieces_of(set, Writing::kJsonString, escapes_less_);
  std::string rest;
  if (most < 0) {
    rest = reserve();
    std::string body = "\"\\\"\"";
    for (const std::string& piece : pieces) body += " | " + piece + " " + rest;
    define(rest, body);
  }
  return counted(pieces, least, most, rest);
}

std::string Rules::plain_of_length(const CodeSet& set, int64_t least, int64_t most) {
  const Pieces pieces{class_of(set)};
  const std::string first = least > 0 ? times(pieces, least) : "";
  if (most < 0) return first + pieces[0] + "*";
  return first + up_to(pieces, most - least, "\"\"");
}

std::string Rules::language(const Dfa& dfa, Writing writing) {
  if (dfa.states().size() > kMostStates)
    throw Error(ErrorKind::kLimit, "schema: a pattern or range needs more than {} states",
                kMostStates);
  std::string& name = languages_[key_of(dfa, writing)];
  if (!name.empty()) return name;
  const std::string made = StateWriter(dfa, writing, *this).start();
  return languages_[key_of(dfa, writing)] = made;
}

}  // namespace veery::schema
