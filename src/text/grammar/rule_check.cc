#include "text/grammar/rule_check.h"

#include <span>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

// Values of Grammar::Impl::GrammarExprType in xgrammar; all others are terminals.
enum ExpressionType : int64_t { kRuleReference = 4, kSequence = 5, kChoices = 6, kRepeat = 8 };

class Check {
 public:
  explicit Check(const Json& grammar)
      : rules_(grammar["rules"]),
        data_(grammar["grammar_expr_data"].get<std::vector<int64_t>>()),
        starts_(grammar["grammar_expr_indptr"].get<std::vector<int64_t>>()),
        root_(grammar["root_rule_id"].get<int64_t>()),
        ends_(rules_.size()),
        reached_(rules_.size()) {}

  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t rule = 0; rule < ends_.size(); ++rule)
        if (!ends_[rule] && ends(body(rule))) ends_[rule] = changed = true;
    }
    reached_[static_cast<size_t>(root_)] = true;
    std::vector<size_t> open{static_cast<size_t>(root_)};
    while (!open.empty()) {
      const size_t rule = open.back();
      open.pop_back();
      if (!ends_[rule])
        throw Error(ErrorKind::kInput,
                    "the rule '{}' derives no text, so an answer that enters it never ends",
                    printable(rules_[rule][0].string(), 60));
      reach(body(rule), open);
    }
  }

 private:
  int64_t body(size_t rule) const { return rules_[rule][1].get<int64_t>(); }
  std::span<const int64_t> expression(int64_t id) const {
    const auto start = static_cast<size_t>(starts_.at(static_cast<size_t>(id)));
    return std::span(data_).subspan(start, static_cast<size_t>(data_.at(start + 1)) + 2);
  }

  bool ends(int64_t id) const {
    const std::span<const int64_t> all = expression(id), parts = all.subspan(2);
    switch (all[0]) {
      case kRuleReference: return ends_[static_cast<size_t>(parts[0])];
      case kRepeat: return parts[1] == 0 || ends_[static_cast<size_t>(parts[0])];
      case kSequence:
        for (const int64_t part : parts)
          if (!ends(part)) return false;
        return true;
      case kChoices:
        for (const int64_t part : parts)
          if (ends(part)) return true;
        return false;
      default: return true;
    }
  }

  void reach(int64_t id, std::vector<size_t>& open) {
    const std::span<const int64_t> all = expression(id), parts = all.subspan(2);
    if (all[0] == kSequence || all[0] == kChoices) {
      for (const int64_t part : parts) reach(part, open);
    } else if (all[0] == kRuleReference || (all[0] == kRepeat && parts[2] != 0)) {
      const auto rule = static_cast<size_t>(parts[0]);
      if (!reached_[rule]) reached_[rule] = true, open.push_back(rule);
    }
  }

  const Json& rules_;
  std::vector<int64_t> data_, starts_;
  int64_t root_;
  std::vector<bool> ends_, reached_;
};

}  // namespace

void check_rules(const Json& grammar) { Check(grammar).run(); }

}  // namespace veery
