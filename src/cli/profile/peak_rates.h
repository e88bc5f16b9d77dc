// peak_rates.h: measures the peak rates of the machine (roofline) and finds the one that bounds a
// dispatch.
#pragma once
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace veery::cli {

/// Peak rates of all workers together, or of a device.
struct Roofline {
  double memory = 0;  ///< bytes per second of a plain read loop over the weights of the plan
  double f32 = 0;     ///< operations per second; a multiply-add is two
  double bf16 = 0;    ///< the same for products of bf16
  double int8 = 0;    ///< the same for int8 dot products
  double least = 0;   ///< minimum seconds of any dispatch
  std::string_view what_least = "barrier";  ///< its cause: "barrier", or "launch" on a device
};

/// The type of the products of a dispatch.
enum class Arithmetic : uint8_t { kF32, kBf16, kInt8 };

/// The lower bound of the time of a dispatch, and the limit that causes it.
struct Bound {
  std::string_view limit;
  double seconds = 0;
};
/// Returns the largest of the lower bounds. Bytes of activations do not count: they stay in a CPU
/// or GPU cache.
Bound bound(const DispatchCost& cost, Arithmetic products, const Roofline& limits);

/// Measures peak rates, as medians of samples taken between the runs of a plan.
class PeakRateMeter {
 public:
  /// Measures the backend of `plan`.
  explicit PeakRateMeter(const Plan& plan);
  /// Measures each rate once. Throws as Backend::peak_rates() does.
  void sample();
  Roofline limits() const;
  /// Returns the largest spread_of() of the rates.
  double spread() const;

 private:
  Backend& backend_;
  std::vector<MemoryPiece> weights_;  ///< without duplicates, in the order of the plan
  std::vector<double> memory_, f32_, bf16_, int8_, least_;
};

/// Returns the median; 0 for no values.
double median(std::vector<double> values);
/// Returns the interquartile range over the median; 0 for fewer than 4 values.
double spread_of(std::vector<double> values);

}  // namespace veery::cli
