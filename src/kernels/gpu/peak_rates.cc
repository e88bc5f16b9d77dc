#include "kernels/gpu/peak_rates.h"

#include <algorithm>

#include "kernels/gpu/launches.h"

namespace veery::gpu {
namespace {

constexpr double kLeastSeconds = 1e-3;  // of a measurement
constexpr int kThreads = 256;

double seconds_of(Machine& machine, const Launch& launch) {
  const size_t end = 1;
  const auto recording = machine.record_parts({launch}, {}, {&end, 1});
  recording->run({});
  return recording->seconds()[0];
}

// Operations a second: as many turns as take long enough that beginning and ending do not count.
double math_rate(Machine& machine, Math math, uint32_t* kept) {
  constexpr int kMostTurns = 1 << 24;
  const int blocks = 2 * machine.processors();
  for (int turns = 64;; turns *= 4) {
    const double seconds = seconds_of(
        machine, Launch::of(KernelId::math_limit, {.blocks_x = blocks, .threads = kThreads},
                            MathLimitArguments{math, turns, kept}));
    if (seconds < kLeastSeconds && turns < kMostTurns) continue;
    return static_cast<double>(operations_of(math)) * blocks * (kThreads / kWarp) * turns / seconds;
  }
}

// The middle one of some launches that do nothing.
double launch_seconds(Machine& machine, uint32_t* kept) {
  constexpr size_t kTimes = 33;
  const std::vector<Launch> launches(kTimes, Launch::of(KernelId::math_limit, {.threads = kThreads},
                                                        MathLimitArguments{Math::kF32, 0, kept}));
  std::vector<size_t> ends;
  for (size_t i = 1; i <= kTimes; ++i) ends.push_back(i);
  const auto recording = machine.record_parts(launches, {}, ends);
  recording->run({});
  std::vector<double> seconds = recording->seconds();
  std::ranges::nth_element(seconds, seconds.begin() + kTimes / 2);
  return seconds[kTimes / 2];
}

double read_rate(Machine& machine, std::span<const MemoryPiece> weights, uint32_t* kept) {
  std::vector<ReadPiece> pieces;
  double bytes = 0;
  for (const MemoryPiece& piece : weights) {
    pieces.push_back(
        {reinterpret_cast<const uint8_t*>(piece.data), static_cast<int64_t>(piece.size / 16 * 16)});
    bytes += static_cast<double>(pieces.back().size);
  }
  if (bytes == 0) return 0;
  const Memory list = machine.allocate(pieces.size() * sizeof(ReadPiece));
  machine.upload(list.data(), pieces.data(), list.size());
  return bytes /
         seconds_of(machine,
                    Launch::of(KernelId::read_limit,
                               {.blocks_x = 4 * machine.processors(), .threads = kThreads},
                               ReadLimitArguments{reinterpret_cast<const ReadPiece*>(list.data()),
                                                  static_cast<int32_t>(pieces.size()), kept}));
}

}  // namespace

DeviceLimits measure_limits(Machine& machine, std::span<const MemoryPiece> weights) {
  const Memory memory = machine.allocate(sizeof(uint32_t));
  auto* kept = reinterpret_cast<uint32_t*>(memory.data());
  // Without tensor cores bf16 is multiplied as f32.
  const Math bf16 = has_cores(machine) ? Math::kBF16 : Math::kF32;
  return {.memory = read_rate(machine, weights, kept),
          .f32 = math_rate(machine, Math::kF32, kept),
          .bf16 = math_rate(machine, bf16, kept),
          .int8 = math_rate(machine, Math::kInt8, kept),
          .launch = launch_seconds(machine, kept)};
}

}  // namespace veery::gpu
