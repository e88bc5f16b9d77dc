// run_on_gpu.h: runs a single op on the GPU emulator, in the CUDA and Metal dialects; uses host
// memory.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/gpu.h"
#include "kernels/metal/machine.h"
#include "kernels/metal/metal.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"

namespace veery::test {

inline void run_on(Backend& backend, Op op, const std::vector<Operand>& in, const Operand& out,
                   const Attr& attr, RunShape shape) {
  Dispatch d;
  std::copy(in.begin(), in.end(), d.in.begin());
  d.out() = out;
  d.attr = attr;
  EXPECT_EQ(backend.choose(op, d, {}).work, nullptr);
  const std::vector<int32_t> numbers(static_cast<size_t>(shape.rows));
  shape.output_rows = numbers.data();
  const Step step{op, d};
  backend
      .lower({&step, 1}, {},
             {.shape = &shape, .groups = 1, .rows = shape.rows, .outputs = shape.rows})
      ->run(shape);
}
inline void run_on_gpu(Op op, const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                       const RunShape& shape) {
  static const auto backend = gpu::make_backend(gpu::make_emulator());
  run_on(*backend, op, in, out, attr, shape);
}
inline void run_on_metal(Op op, const std::vector<Operand>& in, const Operand& out,
                         const Attr& attr, const RunShape& shape) {
  metal::FakeGpu gpu;
  const auto backend =
      gpu::make_backend(metal::make_machine(metal::make_fake(gpu), metal::kShaders, 1));
  run_on(*backend, op, in, out, attr, shape);
  EXPECT_EQ(gpu.faults, "");
}

/// The parameter of tests that run an op in each GPU dialect.
struct GpuDialect {
  const char* name;
  void (*run)(Op, const std::vector<Operand>&, const Operand&, const Attr&, const RunShape&);
};
class EachGpuDialect : public ::testing::TestWithParam<GpuDialect> {};
inline auto gpu_dialects() {
  return ::testing::Values(GpuDialect{"cuda", run_on_gpu}, GpuDialect{"metal", run_on_metal});
}
inline std::string dialect_name(const ::testing::TestParamInfo<GpuDialect>& at) {
  return at.param.name;
}

}  // namespace veery::test
