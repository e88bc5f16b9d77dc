// plan_table.h: what `veery plan` shows: a row for each dispatch of a run, where it runs, and what
// it costs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/profile/peak_rates.h"
#include "engine/model.h"

namespace veery::cli {

/// Of one plan and the model that it is of, both of which must outlive it. Where the first layers
/// are on the CPU and the last ones on a device, rows of the CPU come first, then one for each
/// value that the device is given, then those of the device.
class PlanTable {
 public:
  PlanTable(Plan& plan, const RunSize& size);

  /// Measures all rows, medians of so many runs of the plan, whose slots are filled and stay as
  /// they are; the runs alternate with the loops that find the limits. Throws as
  /// Plan::run_profiled().
  void profile(int32_t repetitions, const std::function<void(int32_t done, int32_t all)>& progress);

  Json json() const;
  /// A line with titles, one for each row, then sums.
  std::vector<std::string> lines() const;
  /// Reasons to doubt the measured peak rates, a line each: rows that exceed them, rates that vary.
  std::vector<std::string> doubts() const;

 private:
  struct Row {
    Label label;
    std::string shape, types, place;
    DispatchCost cost;
    Arithmetic products = Arithmetic::kF32;
    bool crosses = false;  ///< is a copy from one part to the next
    double seconds = 0;    ///< of one run
    Bound bound;
  };
  /// Rows that run in one place.
  struct Part {
    const Plan* plan = nullptr;
    bool device = false;
    std::string name;  ///< the instructions of a CPU, or a device
    std::vector<Row> rows;
    Roofline limits;
    double spread = 0;  ///< PeakRateMeter::spread()
  };
  /// Rows together.
  struct Total {
    DispatchCost cost;
    double seconds = 0, least = 0, reading = 0;
    bool reads() const { return reading > least / 2; }  ///< mostly waits for memory
    double share() const { return seconds > 0 ? least / seconds : 0; }
    void add(const Row& row);
  };
  struct Widths;

  void add_places(const Plan& plan, const RunSize& size);
  void add_part(const Plan& plan, const RunSize& size);
  void add_crossings(const Plan& plan, const RunSize& size);
  Total total() const;
  std::string line(const Widths& widths, const std::string& index, std::string_view place,
                   const Row& row, const std::string& bytes) const;
  void add_sums(std::vector<std::string>& lines) const;

  Plan& plan_;
  std::vector<Part> parts_;  ///< one for each place
  bool profiled_ = false;
  double whole_ = 0;  ///< seconds of a run with a device, whose rows go over into each other
};

}  // namespace veery::cli
