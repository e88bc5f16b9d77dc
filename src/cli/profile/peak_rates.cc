#include "cli/profile/peak_rates.h"

#include <algorithm>
#include <set>

namespace veery::cli {
namespace {

double ratio(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double spread_of(std::vector<double> values) {
  if (values.size() < 4) return 0;
  std::sort(values.begin(), values.end());
  const double range = values[values.size() * 3 / 4] - values[values.size() / 4];
  return ratio(range, median(std::move(values)));
}

Bound bound(const DispatchCost& cost, Arithmetic products, const Roofline& limits) {
  const Bound rates[] = {{"f32", limits.f32}, {"bf16", limits.bf16}, {"int8", limits.int8}};
  const auto& [name, rate] = rates[static_cast<size_t>(products)];
  const Bound bounds[] = {
      {limits.what_least, limits.least},
      {"memory", ratio(cost.weight_bytes + cost.state_bytes, limits.memory)},
      {name, ratio(cost.flops, rate)},
  };
  return *std::max_element(std::begin(bounds), std::end(bounds),
                           [](const Bound& a, const Bound& b) { return a.seconds < b.seconds; });
}

PeakRateMeter::PeakRateMeter(const Plan& plan) : backend_(plan.backend()) {
  std::set<const std::byte*> seen;
  for (const Dispatch& dispatch : plan.table())
    for (const Operand& in : dispatch.in)
      if (in_panels(in) && seen.insert(in.data).second)
        weights_.push_back({in.data, stored_bytes(in)});
}

void PeakRateMeter::sample() {
  const PeakRates rates = backend_.peak_rates(weights_);
  memory_.push_back(rates.memory);
  f32_.push_back(rates.f32);
  bf16_.push_back(rates.bf16);
  int8_.push_back(rates.int8);
  least_.push_back(rates.least);
}

Roofline PeakRateMeter::limits() const {
  return {.memory = median(memory_),
          .f32 = median(f32_),
          .bf16 = median(bf16_),
          .int8 = median(int8_),
          .least = median(least_),
          .what_least = backend_.runs_on_host() ? "barrier" : "launch"};
}

double PeakRateMeter::spread() const {
  return std::max({spread_of(memory_), spread_of(f32_), spread_of(bf16_), spread_of(int8_)});
}

}  // namespace veery::cli
