// run_on_gpu.h: one op on the emulator of GPUs, whose memory is that of the host.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/gpu.h"
#include "support/gpu_machine.h"

namespace veery::test {

/// Rows of no token; where slots have no positions, these are 0.
inline void run_on_gpu(Op op, const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                       Slots slots) {
  static const auto backend = gpu::make_backend(gpu::make_emulator());
  Dispatch d;
  std::copy(in.begin(), in.end(), d.in.begin());
  d.out() = out;
  d.attr = attr;
  EXPECT_EQ(backend->choose(op, d, {}).work, nullptr);
  const std::vector<int32_t> numbers(static_cast<size_t>(slots.rows));
  slots.tokens = slots.output_rows = numbers.data();
  if (slots.positions == nullptr) slots.positions = numbers.data();
  const Step step{op, d};
  backend
      ->lower({&step, 1}, {},
              {.slots = &slots, .groups = 1, .rows = slots.rows, .outputs = slots.rows})
      ->run(slots);
}

}  // namespace veery::test
