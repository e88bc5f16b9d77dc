// plan_table.h: the table of `veery plan`: a row for each dispatch with its device and cost.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/profile/peak_rates.h"
#include "engine/model.h"

namespace veery::cli {

/// The table of a plan, which must outlive it. If the layers are on several places, such as the CPU
/// and a device, the rows of each place follow one another in the order of the layers. Before the
/// rows of a place stands a copy for each value that crosses to it.
class PlanTable {
 public:
  PlanTable(Plan& plan, const RunSize& size);

  /// Measures all rows except copies, as medians of `repetitions` runs of the plan with its present
  /// inputs. The runs alternate with measurements of the peak rates. Throws as Plan::run_profiled()
  /// does.
  void profile(int32_t repetitions, const std::function<void(int32_t done, int32_t all)>& progress);

  Json json() const;
  /// Returns a line with titles, a line for each row, then the sums.
  std::vector<std::string> lines() const;
  /// Returns reasons to doubt the measured peak rates, a line each: rows that exceed them, and
  /// rates that varied.
  std::vector<std::string> doubts() const;

 private:
  struct Row {
    Label label;
    std::string shape, types, place;
    DispatchCost cost;
    Arithmetic products = Arithmetic::kF32;
    bool crosses = false;  ///< a copy to the next place, which is not timed
    double seconds = 0;    ///< of one run
    Bound bound;
  };
  /// The rows of one place.
  struct Part {
    const Plan* plan = nullptr;
    bool device = false;
    std::string name;  ///< instruction set of the CPU, or description of the device
    std::vector<Row> rows;
    Roofline limits;
    double spread = 0;  ///< PeakRateMeter::spread()
  };
  /// The sum of rows.
  struct Total {
    DispatchCost cost;
    double seconds = 0, least = 0, reading = 0;
    bool reads() const { return reading > least / 2; }  ///< bound by memory for most of the time
    double share() const { return seconds > 0 ? least / seconds : 0; }
    void add(const Row& row);
  };
  struct Widths;

  void add_places(const Plan& plan, const RunSize& size);
  void add_part(const Plan& plan, const RunSize& size);
  void add_crossings(const Plan& plan, const RunSize& size);
  std::string label_of(const Part& part) const;
  Json places_json() const;
  Total total() const;
  std::string line(const Widths& widths, const std::string& index, std::string_view place,
                   const Row& row, const std::string& bytes) const;
  void add_sums(std::vector<std::string>& lines) const;

  Plan& plan_;
  std::vector<Part> parts_;  ///< one for each place
  bool profiled_ = false;
  double whole_ = 0;  ///< seconds of a whole run with a device, in which dispatches overlap
};

}  // namespace veery::cli
