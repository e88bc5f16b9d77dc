// report.h: what was checked of a model, and what came out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// kWarn: it can be used, but something is not as it should be. kSkipped: nothing to check, or
/// something that fails stands before it.
enum class CheckState : uint8_t { kOk, kWarn, kFail, kSkipped };
std::string_view name(CheckState state);  ///< "ok", "warn", "fail", "skipped"

/// One row of the table that verify() gives.
struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string found;
  std::string expected;  ///< empty where `found` says it
  std::string hint;      ///< what may be wrong and what helps; empty: nothing to say
};

class Report {
 public:
  using OnCheck = std::function<void(const Check&)>;
  /// `on_check` is called with each row as it is added.
  explicit Report(OnCheck on_check = {}) : on_check_(std::move(on_check)) {}

  void add(Check check) {
    checks_.push_back(std::move(check));
    if (on_check_) on_check_(checks_.back());
  }
  void ok(std::string name, std::string found) {
    add({.name = std::move(name), .found = std::move(found)});
  }
  void skip(std::string name, std::string why) {
    add({.name = std::move(name), .state = CheckState::kSkipped, .found = std::move(why)});
  }
  const std::vector<Check>& checks() const { return checks_; }
  int64_t count(CheckState state) const {
    return std::ranges::count(checks_, state, &Check::state);
  }
  bool sound() const { return count(CheckState::kFail) == 0; }

 private:
  OnCheck on_check_;
  std::vector<Check> checks_;
};

}  // namespace veery
