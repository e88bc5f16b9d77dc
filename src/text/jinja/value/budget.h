// budget.h: limits of one rendering (steps, memory, depth), because templates are untrusted code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace veery::jinja {

inline constexpr int kMaxValueDepth = 200;    ///< nesting of lists; bounds destruction and printing
inline constexpr int kMaxNesting = 100;       ///< nesting of statements and of parentheses
inline constexpr int kMaxNodeHeight = 400;    ///< height of an expression tree
inline constexpr int kMaxCallDepth = 1600;    ///< nested evaluations, including recursive macros
inline constexpr int64_t kMaxRange = 100000;  ///< as in jinja2's sandbox

/// Reports an error of the template or its input; the evaluator adds the line.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kFormat, format, std::forward<Args>(args)...);
}

class Budget {
 public:
  Budget(int64_t steps, size_t memory) : most_(steps), steps_(steps), memory_(memory) {}
  void step(int64_t count) {
    steps_ -= count;
    if (steps_ < 0)
      throw Error(ErrorKind::kLimit, "the template takes too many steps (more than {})", most_);
  }
  int64_t spent() const { return most_ - steps_; }
  /// Throws kLimit unless `bytes` more fit. Does not allocate them.
  void expect(size_t bytes) const {
    if (bytes > memory_ - used_)
      throw Error(ErrorKind::kLimit, "the template takes too much memory (more than {} bytes)",
                  memory_);
  }
  void take(size_t bytes) {
    expect(bytes);
    used_ += bytes;
  }
  void give(size_t bytes) { used_ -= bytes; }

 private:
  int64_t most_, steps_;  // initial and remaining steps
  size_t memory_;
  size_t used_ = 0;
};

/// The budget of the rendering on this thread; null while parsing, whose constants are bounded by
/// the source. Thread-local because every operation on values spends from it.
Budget*& current_budget();

class BudgetScope {
 public:
  explicit BudgetScope(Budget* budget) : outer_(current_budget()) { current_budget() = budget; }
  ~BudgetScope() { current_budget() = outer_; }
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  Budget* outer_;
};

/// Spends one step per element. A step corresponds to about 40 ns. Operations that cost more than a
/// few steps are charged by the data that they touch, before or during the operation.
inline void spend_steps(size_t count) {
  if (Budget* budget = current_budget()) budget->step(static_cast<int64_t>(count));
}
constexpr size_t kBytesPerStep = 64;  ///< bytes copied, compared or searched per step
/// Charges processing text character by character.
inline void spend_text(size_t bytes) { spend_steps(1 + bytes / 3); }
/// Charges copying or comparing text.
inline void spend_copy(size_t bytes) { spend_steps(1 + bytes / kBytesPerStep); }
/// Charges copying or visiting values.
inline void spend_items(size_t count) { spend_steps(1 + count / 2); }

/// Charges work of initially unknown size as it is done. One unit costs as much as copying one
/// byte.
class Meter {
 public:
  Meter() { spend_steps(1); }
  void add(size_t units) {
    units_ += units;
    if (units_ < kBytesPerStep) return;
    spend_steps(units_ / kBytesPerStep);
    units_ %= kBytesPerStep;
  }

 private:
  size_t units_ = 0;
};

inline void expect_memory(size_t bytes) {
  if (Budget* budget = current_budget()) budget->expect(bytes);
}

/// Memory held by an object; released with it.
class Charge {
 public:
  explicit Charge(size_t bytes) : budget_(current_budget()), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take(bytes_);
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  void resize(size_t bytes) {
    if (budget_ != nullptr) {
      if (bytes > bytes_)
        budget_->take(bytes - bytes_);
      else
        budget_->give(bytes_ - bytes);
    }
    bytes_ = bytes;
  }

 private:
  Budget* budget_;
  size_t bytes_;
};

/// A string under construction, charged to the budget as it grows.
class Builder {
 public:
  void append(std::string_view piece) {
    if (text_.size() + piece.size() > capacity_) grow(piece.size());
    text_.append(piece);
  }
  void append(char c) { append(std::string_view(&c, 1)); }
  void append(size_t count, char c);
  size_t size() const { return text_.size(); }
  std::string take();

 private:
  void grow(size_t more);
  std::string text_;
  size_t capacity_ = 15;
  Charge charge_{0};
};

}  // namespace veery::jinja
