#include "kernels/gpu/launch/rope_heads.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/gpu/launch/recorder.h"

namespace veery::gpu {
namespace {

constexpr int kThreads = 128;
/// Heads for which a thread computes the angles of a token once.
constexpr int32_t kHeadsPerBlock = 8;

RopeData data_of(const RopeHeads& heads) {
  return {reinterpret_cast<uint8_t*>(heads.data), heads.batch_stride, heads.token_stride,
          heads.head_stride};
}

template <typename T>
Memory uploaded(const std::vector<T>& all, Machine& machine) {
  Memory memory = machine.allocate(all.size() * sizeof(T));
  machine.upload(memory.data(), all.data(), memory.size());
  return memory;
}

}  // namespace

void rope(const RopeProblem& problem, const RopeTable& table, Machine& machine) {
  if (problem.type != ElementType::kF32 && problem.type != ElementType::kBF16)
    throw Error(ErrorKind::kUnsupported, "rope: elements of {} on {}, expected f32 or bf16",
                info(problem.type).name, machine.name());
  const int64_t rows = problem.batch * problem.tokens;
  if (rows == 0 || problem.heads == 0) return;
  const Memory frequency = uploaded(table.frequency, machine);
  const Memory axis = uploaded(std::vector<int32_t>(table.axis.begin(), table.axis.end()), machine);
  const int32_t* positions = *std::ranges::min_element(problem.positions);
  RopeHeadsParams a{.in = data_of(problem.in), .out = data_of(problem.out)};
  a.frequency = reinterpret_cast<const double*>(frequency.data());
  a.axis = reinterpret_cast<const int32_t*>(axis.data());
  a.positions = positions;
  for (size_t i = 0; i < problem.positions.size(); ++i)
    a.axis_offset[i] = problem.positions[i] - positions;
  a.cos_factor = table.magnitude;
  a.sin_factor = problem.back ? -table.magnitude : table.magnitude;
  a.tokens = static_cast<int32_t>(problem.tokens), a.heads = static_cast<int32_t>(problem.heads);
  a.head_dim = static_cast<int32_t>(problem.head_dim);
  a.pairs = static_cast<int32_t>(table.pairs()), a.step = static_cast<int32_t>(table.step);
  a.distance = static_cast<int32_t>(table.distance);
  a.is_bf16 = problem.type == ElementType::kBF16 ? 1 : 0;
  a.heads_per_block = kHeadsPerBlock;
  LaunchSize size = launch_size(rows, kThreads);
  size.blocks_y = (a.heads + kHeadsPerBlock - 1) / kHeadsPerBlock;
  machine.record({Launch::of(KernelId::rope_heads, size, a)}, {})->run({});
}

}  // namespace veery::gpu
