// Launches of the most probable tokens.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"

namespace veery::gpu {
namespace {

bool accepts_top_k(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.outputs[TopKOut::kValues]) &&
         is_matrix(d.outputs[TopKOut::kIndices], DType::kI32) &&
         is_matrix(d.outputs[TopKOut::kMass]) && d.as<TopKAttr>().count <= TopKSmem::kThreads;
}
void record_top_k(const Dispatch& d, Recorder& to) {
  using P = TopKSmem;
  const Operand& x = d.in[UnaryIn::kX];
  const auto matrix = [&](int output) { return to.matrix(d.outputs[static_cast<size_t>(output)]); };
  const auto rows = static_cast<size_t>(to.max_rows(d.out().rows));
  const int pieces = P::pieces(x.cols);
  // Two thread blocks per SM, a power of two, each with a piece at least.
  const int max_blocks =
      std::min({2 * to.machine.sm_count() / static_cast<int>(rows), pieces, int{P::kMaxBlocks}});
  int blocks = 1;
  while (2 * blocks <= max_blocks) blocks *= 2;
  const auto memory = [&](size_t bytes) {
    return to.memory.emplace_back(to.machine.allocate(rows * bytes)).data();
  };
  TopKParams a{to.run,
               to.matrix(x),
               matrix(TopKOut::kValues),
               matrix(TopKOut::kIndices),
               matrix(TopKOut::kMass),
               d.as<TopKAttr>().count};
  a.groups = reinterpret_cast<uint64_t*>(memory(P::kThreads * sizeof(uint64_t)));
  a.found = reinterpret_cast<uint64_t*>(memory(P::kMaxSorted * sizeof(uint64_t)));
  a.sums = reinterpret_cast<double*>(memory(static_cast<size_t>(pieces) * sizeof(double)));
  a.arrived = reinterpret_cast<uint32_t*>(memory(2 * sizeof(uint32_t)));
  const LaunchSize size{.blocks_x = blocks,
                        .blocks_y = static_cast<int>(rows),
                        .threads = P::kThreads,
                        .shared = P::kBytes};
  to.add(KernelId::top_k_groups, size, a);
  if (to.machine.has(KernelId::top_k)) return to.add(KernelId::top_k, size, a);
  to.add(KernelId::top_k_sums, size, a);
  to.add(KernelId::top_k_select,
         {.blocks_y = size.blocks_y, .threads = P::kThreads, .shared = P::kBytes}, a);
}

const LaunchRow kRows[] = {
    {op::kTopK, accepts_top_k, "top_k", nullptr, record_top_k, KernelId::top_k_groups},
};

}  // namespace

LaunchRows top_k_launches() { return kRows; }

}  // namespace veery::gpu
