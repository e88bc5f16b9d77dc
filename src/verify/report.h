// report.h: the results of all checks of a model.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// kWarn: usable, but something is not as expected. kSkipped: nothing to check, or a previous check
/// failed.
enum class CheckState : uint8_t { kOk, kWarn, kFail, kSkipped };
std::string_view name(CheckState state);  ///< "ok", "warn", "fail", "skipped"

/// A row of the report.
struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string found;
  std::string expected;  ///< empty if `found` is as expected
  std::string hint;      ///< possible causes and remedies; empty if there are none
};

class Report {
 public:
  using OnCheck = std::function<void(const Check&)>;
  /// Calls `on_check` with each row when it is added.
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
