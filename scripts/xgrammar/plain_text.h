// plain_text.h: added by veery. Recognises tokens of ordinary text in states that accept any such
// text.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar_impl.h"

namespace xgrammar {

// Printable ASCII except `"`, `<` and the backslash.
inline bool IsPlainByte(uint8_t c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '<' && c != '\\';
}

// Returns the number of characters if a token consists of plain ASCII and complete UTF-8
// characters, negated if any is beyond ASCII; 0 for other tokens.
inline int8_t PlainLength(const std::string& token) {
  int count = 0;
  bool ascii = true;
  for (size_t i = 0; i < token.size(); ++count) {
    const auto lead = static_cast<uint8_t>(token[i]);
    if (lead < 0x80) {
      if (!IsPlainByte(lead)) return 0;
      ++i;
      continue;
    }
    ascii = false;
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || i + length > token.size()) return 0;
    for (size_t k = 1; k < length; ++k)
      if ((static_cast<uint8_t>(token[i + k]) & 0xc0) != 0x80) return 0;
    const auto second = static_cast<uint8_t>(token[i + 1]);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
      return 0;
    i += length;
  }
  if (count > 127) return 0;
  return static_cast<int8_t>(ascii ? count : -count);
}

// Counts the arbitrary plain characters that a state accepts, for ASCII and for all characters.
class PlainSteps {
 public:
  static constexpr int kMost = 64;
  explicit PlainSteps(const Grammar& grammar) : grammar_(grammar) {}

  std::pair<int, int> Count(int rule, int node) const {
    int ascii = 0, all = 0;
    bool wide = true;
    for (int hops = 0; ascii < kMost && hops < 4 * kMost; ++hops) {
      const int next = Next(rule, node);
      if (next >= 0) {
        wide = wide && TakesWide(rule, node, next);
        ++ascii;
        if (wide) all = ascii;
        node = next;
        continue;
      }
      const int into = Entered(rule, node);
      if (into < 0 || !grammar_->per_rule_fsms[into].has_value()) break;
      rule = into;
      node = grammar_->per_rule_fsms[rule]->GetFsm().GetStart();
    }
    return {ascii, all};
  }

 private:
  const CompactFSM& Fsm(int rule) const { return grammar_->per_rule_fsms[rule]->GetFsm().GetFsm(); }

  // The only rule that continues from the state.
  int Entered(int rule, int node) const {
    for (const auto& edge : Fsm(rule).GetEdges(node))
      if (edge.IsRuleRef()) return edge.GetRefRuleId();
    return -1;
  }

  // The state that all plain bytes lead to; -1 if there is none.
  int Next(int rule, int node) const {
    std::vector<int> tried;
    for (const auto& candidate : Fsm(rule).GetEdges(node)) {
      if (!candidate.IsCharRange()) continue;
      bool known = false;
      for (const int target : tried) known = known || target == candidate.target;
      if (known) continue;
      tried.push_back(candidate.target);
      std::array<bool, 128> taken{};
      for (const auto& edge : Fsm(rule).GetEdges(node)) {
        if (!edge.IsCharRange() || edge.target != candidate.target) continue;
        for (int c = edge.min; c <= edge.max && c < 128; ++c) taken[c] = true;
      }
      bool all = true;
      for (int c = 0; c < 128; ++c)
        all = all && (taken[c] || !IsPlainByte(static_cast<uint8_t>(c)));
      if (all) return candidate.target;
    }
    return -1;
  }

  using Range = std::pair<int, int>;

  // Returns whether all byte sequences of these ranges lead to `target`.
  bool Leads(int rule, int node, const Range* ranges, int count, int target) const {
    if (count == 0) return node == target;
    for (int c = ranges->first; c <= ranges->second;) {
      int covered = -1;
      for (const auto& edge : Fsm(rule).GetEdges(node))
        if (edge.IsCharRange() && edge.min <= c && c <= edge.max &&
            Leads(rule, edge.target, ranges + 1, count - 1, target)) {
          covered = edge.max;
          break;
        }
      if (covered < 0) return false;
      c = covered + 1;
    }
    return true;
  }

  bool TakesWide(int rule, int node, int target) const {
    static constexpr Range kTail{0x80, 0xbf};
    static const std::vector<std::vector<Range>> kForms = {
        {{0xc2, 0xdf}, kTail},
        {{0xe0, 0xe0}, {0xa0, 0xbf}, kTail},
        {{0xe1, 0xec}, kTail, kTail},
        {{0xed, 0xed}, {0x80, 0x9f}, kTail},
        {{0xee, 0xef}, kTail, kTail},
        {{0xf0, 0xf0}, {0x90, 0xbf}, kTail, kTail},
        {{0xf1, 0xf3}, kTail, kTail, kTail},
        {{0xf4, 0xf4}, {0x80, 0x8f}, kTail, kTail}};
    for (const auto& form : kForms)
      if (!Leads(rule, node, form.data(), static_cast<int>(form.size()), target)) return false;
    return true;
  }

  const Grammar& grammar_;
};

}  // namespace xgrammar
