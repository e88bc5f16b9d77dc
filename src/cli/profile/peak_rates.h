// peak_rates.h: peak rates of the machine, measured beside a plan, and the one that bounds a
// dispatch.
#pragma once
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace veery::cli {

/// Peak rates of all workers, or of a whole device.
struct Roofline {
  double memory = 0;  ///< bytes per second of a plain read loop over the weights of the plan
  double f32 = 0;     ///< operations per second; a multiply-add is two
  double bf16 = 0;    ///< the same, of products of bf16
  double int8 = 0;    ///< the same, of int8 dot products
  double least = 0;   ///< seconds that any dispatch takes
  std::string_view what_least = "barrier";  ///< or "launch", of a device
};

/// What the products of a dispatch are of.
enum class Arithmetic : uint8_t { kF32, kBf16, kInt8 };

/// The least time that a dispatch could take, and what it would wait for.
struct Bound {
  std::string_view limit;
  double seconds = 0;
};
/// Activations are small and stay in a cache: their bytes do not count.
Bound bound(const DispatchCost& cost, Arithmetic products, const Roofline& limits);

/// Measures peak rates between other runs: medians of the samples.
class PeakRateMeter {
 public:
  /// Measures the backend of `plan`.
  explicit PeakRateMeter(const Plan& plan);
  /// Throws as Backend::peak_rates().
  void sample();
  Roofline limits() const;
  /// The interquartile range of the rates over their median, of the rate that varied most.
  double spread() const;

 private:
  Backend& backend_;
  std::vector<MemoryPiece> weights_;  ///< each once, in the order in which the plan reads them
  std::vector<double> memory_, f32_, bf16_, int8_, least_;
};

/// Of values in any order; 0 of none.
double median(std::vector<double> values);
/// The interquartile range over the median; 0 of fewer than 4 values.
double spread_of(std::vector<double> values);

}  // namespace veery::cli
