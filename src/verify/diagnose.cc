#include "verify/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

constexpr size_t kMostIds = 96;      // token ids per trial
constexpr size_t kMostChanges = 3;   // changes in total
constexpr double kWorthwhile = 0.6;  // a change must reduce the difference to this fraction
constexpr size_t kRounds = 6;
constexpr int kGrid = 17, kSteps = 26;

class Search {
 public:
  Search(const Model& model, std::span<const ReferenceSet> sets, double tolerance,
         const std::function<void(size_t)>& progress)
      : model_(model), sets_(sets), tolerance_(tolerance), progress_(progress) {}

  Diagnosis run() {
    far_ = compare_base();
    result_.before = result_.after = far_.largest;
    for (size_t i = 0; i < kRounds && !result_.explained && improve(); ++i) {
    }
    return std::move(result_);
  }

 private:
  Difference compare_base() {
    Model same(model_, [](ModelFile&, TransformerConfig&) {});
    return compare(same, sets_, kMostIds);
  }

  // Returns the difference with all changes so far and one more; nullopt if they do not fit the
  // model.
  std::optional<Difference> try_with(const Hypothesis& more) {
    ++result_.tried;
    if (progress_) progress_(result_.tried);
    try {
      IdEdit edit = more.edit;
      Model changed(model_, [&](ModelFile& file, TransformerConfig& config) {
        for (const Hypothesis& change : result_.changes) {
          change.change(file, config);
          if (edit == IdEdit::kNone) edit = change.edit;
        }
        if (more.change) more.change(file, config);
      });
      return compare(changed, sets_, kMostIds, edit);
    } catch (const Error& error) {
      // A change that does not fit the file only refutes its hypothesis; other errors are real
      // failures.
      if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kIo ||
          error.kind() == ErrorKind::kNotFound)
        throw;
      return std::nullopt;
    }
  }

  struct Best {
    std::optional<Hypothesis> change;
    Difference difference;
  };

  // Applies the change that reduces the difference most, if it is worthwhile.
  bool improve() {
    Best best;
    best.difference.rms = INFINITY;
    for (const Hypothesis& hypothesis : hypotheses(model_, sets_, far_)) {
      const auto left = try_with(hypothesis);
      if (!left || left->rms >= best.difference.rms) continue;
      best = {hypothesis, *left};
      if (left->largest <= tolerance_) break;
    }
    if (!best.change || best.difference.largest > tolerance_)
      for (const Knob& knob : knobs(model_)) turn(knob, best);
    if (!best.change || best.difference.rms > kWorthwhile * far_.rms) return false;
    // A better value of the same number replaces the earlier one.
    const auto same = std::ranges::find_if(result_.changes, [&](const Hypothesis& change) {
      return !change.number.empty() && change.number == best.change->number;
    });
    if (same != result_.changes.end())
      *same = *best.change;
    else if (result_.changes.size() == kMostChanges)
      return false;
    else
      result_.changes.push_back(*best.change);
    far_ = best.difference;
    result_.after = far_.largest;
    result_.explained = result_.after <= tolerance_;
    return true;
  }

  static Hypothesis with(const Knob& knob, double value) {
    return {knob.defect,
            fmt::format("{} is {}", knob.what, number_text(value)),
            [set = knob.set, value](ModelFile&, TransformerConfig& c) { set(c, value); },
            IdEdit::kNone,
            knob.what,
            value};
  }

  // Searches for the value of a number: on a grid, then around the best grid point, or around the
  // current value if no grid point is better.
  void turn(const Knob& knob, Best& best) {
    const double low = std::log(knob.low);
    const double step = (std::log(knob.high) - low) / (kGrid - 1);
    double now = knob.now;
    for (const Hypothesis& change : result_.changes)
      if (change.number == knob.what) now = change.value;
    double centre = now > 0 ? std::log(now) : low;
    double least = far_.rms;
    for (int i = 0; i < kGrid; ++i) {
      const double left = measure(knob, low + i * step, best);
      if (left < least) centre = low + i * step;
      least = std::min(least, left);
    }
    if (least == far_.rms && now == 0) return;
    narrow(knob, centre - step, centre + step, best);
  }

  // Golden section search. Stops early if there is no improvement.
  void narrow(const Knob& knob, double a, double b, Best& best) {
    constexpr double kGolden = 0.6180339887498949;
    constexpr int kPatience = 8;
    double c = b - kGolden * (b - a);
    double d = a + kGolden * (b - a);
    double left_c = measure(knob, c, best);
    double left_d = measure(knob, d, best);
    for (int i = 0; i < kSteps; ++i) {
      const double least = std::min(left_c, left_d);
      if (best.difference.largest < tolerance_ / 10) return;
      if (i > kPatience && least > kWorthwhile * far_.rms) return;
      if (left_c < left_d) {
        b = std::exchange(d, c);
        c = b - kGolden * (b - a);
        left_d = std::exchange(left_c, measure(knob, c, best));
      } else {
        a = std::exchange(c, d);
        d = a + kGolden * (b - a);
        left_c = std::exchange(left_d, measure(knob, d, best));
      }
    }
  }

  double measure(const Knob& knob, double logarithm, Best& best) {
    const Hypothesis hypothesis = with(knob, std::exp(logarithm));
    const auto left = try_with(hypothesis);
    if (!left) return INFINITY;
    if (left->rms < best.difference.rms) best = {hypothesis, *left};
    return left->rms;
  }

  const Model& model_;
  std::span<const ReferenceSet> sets_;
  double tolerance_;
  const std::function<void(size_t)>& progress_;
  Difference far_;  // difference of the model with all changes so far
  Diagnosis result_;
};

}  // namespace

Diagnosis diagnose(const Model& model, std::span<const ReferenceSet> sets, double tolerance,
                   const std::function<void(size_t)>& progress) {
  return Search(model, sets, tolerance, progress).run();
}

}  // namespace veery
