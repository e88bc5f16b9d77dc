#include "cli/profile/peak_rates.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "kernels/peak_rates.h"

namespace veery::cli {
namespace {

constexpr int64_t kTurns = 20000;  // about a millisecond
constexpr int kBarriers = 1000;
constexpr size_t kLine = 64;

template <typename Job>
double seconds_of(ThreadPool& pool, const Job& job) {
  const double start = seconds_now();
  pool.run(job);
  return seconds_now() - start;
}

template <typename Loop>
double rate_of(ThreadPool& pool, const Loop& loop, Target target) {
  double operations = 0;
  const double seconds = seconds_of(pool, [&](int index) {
    const double done = loop(target, kTurns);
    if (index == 0) operations = done;
  });
  return operations * pool.size() / seconds;
}

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

PeakRateMeter::PeakRateMeter(ThreadPool& pool, Target target, Backend* backend, const Plan& plan)
    : pool_(pool), target_(target), backend_(backend) {
  std::set<const std::byte*> seen;
  for (const Dispatch& dispatch : plan.table())
    for (const Operand& in : dispatch.in)
      if (in_panels(in) && seen.insert(in.data).second)
        weights_.push_back({in.data, stored_bytes(in)});
}

void PeakRateMeter::sample() {
  if (backend_ != nullptr) {
    const PeakRates rates = backend_->peak_rates(weights_);
    memory_.push_back(rates.memory);
    f32_.push_back(rates.f32);
    bf16_.push_back(rates.bf16);
    int8_.push_back(rates.int8);
    least_.push_back(rates.launch);
    return;
  }
  memory_.push_back(read_rate());
  f32_.push_back(rate_of(pool_, fma_loop, target_));
  bf16_.push_back(rate_of(pool_, bf16_loop, target_));
  int8_.push_back(rate_of(pool_, dot4_loop, target_));
  least_.push_back(barrier_seconds());
}

Roofline PeakRateMeter::limits() const {
  return {.memory = median(memory_),
          .f32 = median(f32_),
          .bf16 = median(bf16_),
          .int8 = median(int8_),
          .least = median(least_),
          .what_least = backend_ != nullptr ? "launch" : "barrier"};
}

double PeakRateMeter::spread() const {
  return std::max({spread_of(memory_), spread_of(f32_), spread_of(bf16_), spread_of(int8_)});
}

double PeakRateMeter::read_rate() {
  std::atomic<uint64_t> used = 0;
  size_t all = 0;
  for (const MemoryPiece& piece : weights_) all += piece.size;
  const double seconds = seconds_of(pool_, [&](int index) {
    uint64_t sum = 0;
    for (const MemoryPiece& piece : weights_) {
      const Share own = share(static_cast<int64_t>(piece.size), kLine, {index, pool_.size()});
      sum += read_loop(target_, piece.data + own.begin, static_cast<size_t>(own.end - own.begin));
    }
    used += sum;
  });
  return static_cast<double>(all) / seconds;
}

double PeakRateMeter::barrier_seconds() {
  const double seconds = seconds_of(pool_, [&](int) {
    for (int i = 0; i < kBarriers; ++i) pool_.barrier().wait();
  });
  return seconds / kBarriers;
}

}  // namespace veery::cli
