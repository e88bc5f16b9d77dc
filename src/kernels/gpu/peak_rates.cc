#include "kernels/gpu/peak_rates.h"

#include <algorithm>

#include "kernels/gpu/launch/recorder.h"

namespace veery::gpu {
namespace {

constexpr double kMinSeconds = 1e-3;
constexpr int kThreads = 256;

double seconds_of(Machine& machine, const Launch& launch) {
  const size_t end = 1;
  const auto recording = machine.record_parts({launch}, {}, {&end, 1});
  recording->run({});
  return recording->seconds()[0];
}

// Operations per second, from enough iterations that start and end do not count.
double math_rate(Machine& machine, Math math, uint32_t* sink) {
  constexpr int kMaxIterations = 1 << 24;
  const int blocks = 2 * machine.sm_count();
  for (int iterations = 64;; iterations *= 4) {
    const double seconds = seconds_of(
        machine, Launch::of(KernelId::peak_math, {.blocks_x = blocks, .threads = kThreads},
                            PeakMathParams{math, iterations, sink}));
    if (seconds < kMinSeconds && iterations < kMaxIterations) continue;
    return static_cast<double>(operations_per_iteration(math)) * blocks * (kThreads / kWarp) *
           iterations / seconds;
  }
}

// The median time of launches that do nothing.
double launch_seconds(Machine& machine, uint32_t* sink) {
  constexpr size_t kTimes = 33;
  const std::vector<Launch> launches(kTimes, Launch::of(KernelId::peak_math, {.threads = kThreads},
                                                        PeakMathParams{Math::kF32, 0, sink}));
  std::vector<size_t> ends;
  for (size_t i = 1; i <= kTimes; ++i) ends.push_back(i);
  const auto recording = machine.record_parts(launches, {}, ends);
  recording->run({});
  std::vector<double> seconds = recording->seconds();
  std::ranges::nth_element(seconds, seconds.begin() + kTimes / 2);
  return seconds[kTimes / 2];
}

double read_rate(Machine& machine, std::span<const MemoryPiece> weights, uint32_t* sink) {
  std::vector<MemoryRange> ranges;
  double bytes = 0;
  for (const MemoryPiece& piece : weights) {
    ranges.push_back(
        {reinterpret_cast<const uint8_t*>(piece.data), static_cast<int64_t>(piece.size / 16 * 16)});
    bytes += static_cast<double>(ranges.back().size);
  }
  if (bytes == 0) return 0;
  const Memory list = machine.allocate(ranges.size() * sizeof(MemoryRange));
  machine.upload(list.data(), ranges.data(), list.size());
  return bytes /
         seconds_of(machine,
                    Launch::of(KernelId::peak_read,
                               {.blocks_x = 4 * machine.sm_count(), .threads = kThreads},
                               PeakReadParams{reinterpret_cast<const MemoryRange*>(list.data()),
                                              static_cast<int32_t>(ranges.size()), sink}));
}

}  // namespace

PeakRates measure_peak_rates(Machine& machine, std::span<const MemoryPiece> weights) {
  const Memory memory = machine.allocate(sizeof(uint32_t));
  auto* sink = reinterpret_cast<uint32_t*>(memory.data());
  // Without tensor cores bf16 is multiplied as f32.
  const Math bf16 = has_tensor_cores(machine) ? Math::kBF16 : Math::kF32;
  return {.memory = read_rate(machine, weights, sink),
          .f32 = math_rate(machine, Math::kF32, sink),
          .bf16 = math_rate(machine, bf16, sink),
          .int8 = math_rate(machine, Math::kInt8, sink),
          .least = launch_seconds(machine, sink)};
}

}  // namespace veery::gpu
