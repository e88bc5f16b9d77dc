// Rotary position embeddings of data in device memory: the bits of the CPU kernel.
#include <gtest/gtest.h>

#include "base/random.h"
#include "dtype/half.h"
#include "kernels/cpu/tensor/rope.h"
#include "kernels/gpu/launch/rope_heads.h"
#include "support/run_on_gpu.h"

namespace veery::test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 3, kHeads = 11, kDim = 74;

// Calls fn with each machine.
void on_machines(const std::function<void(gpu::Machine&, const char*)>& fn) {
  fn(*gpu::make_emulator(), "cuda");
  metal::FakeGpu gpu;
  fn(*metal::make_machine(metal::make_fake(gpu), metal::kShaders, 1), "metal");
  EXPECT_EQ(gpu.faults, "");
}

std::vector<std::byte> numbers(ElementType type) {
  Random random(3);
  std::vector<std::byte> bytes(kBatch * kTokens * kHeads * kDim *
                               static_cast<size_t>(info(type).bytes));
  for (size_t i = 0; i < bytes.size() / static_cast<size_t>(info(type).bytes); ++i) {
    const float value = random.normal();
    if (type == ElementType::kF32)
      reinterpret_cast<float*>(bytes.data())[i] = value;
    else
      reinterpret_cast<uint16_t*>(bytes.data())[i] = f32_to_bf16(value);
  }
  return bytes;
}

RopeHeads heads_at(std::byte* data, bool heads_first) {
  return {data, kTokens * kHeads * kDim, heads_first ? kDim : kHeads * kDim,
          heads_first ? kTokens * kDim : kDim};
}

RopeProblem problem_of(ElementType type, const std::vector<int32_t>& positions, bool back) {
  RopeProblem problem{.type = type,
                      .batch = kBatch,
                      .tokens = kTokens,
                      .heads = kHeads,
                      .head_dim = kDim,
                      .back = back};
  for (size_t axis = 0; axis < 4; ++axis)
    problem.positions[axis] = positions.data() + axis * kBatch * kTokens;
  return problem;
}

std::vector<int32_t> some_positions() {
  Random random(4);
  std::vector<int32_t> positions(4 * kBatch * kTokens);
  for (int32_t& p : positions) p = static_cast<int32_t>(random.next());
  positions[0] = INT32_MIN, positions[1] = INT32_MAX, positions[2] = 0;
  return positions;
}

RopeTable table_of(RopeMode mode, RopePairing pairing) {
  return RopeTable({.head_dim = kDim,
                    .rope_dim = 46,
                    .mode = mode,
                    .pairing = pairing,
                    .sections = {7, 6, 5, 2},
                    .angles = {.attention_factor = 1.2}});
}

// The result on a machine; in place unless `out` is given.
std::vector<std::byte> on_machine(RopeProblem problem, const RopeTable& table, bool heads_first,
                                  bool in_place, gpu::Machine& machine) {
  std::vector<std::byte> x = numbers(problem.type);
  const Memory in = machine.allocate(x.size()), out = machine.allocate(x.size());
  machine.upload(in.data(), x.data(), x.size());
  const std::vector<int32_t> positions = some_positions();
  const Memory at = machine.allocate(positions.size() * sizeof(int32_t));
  machine.upload(at.data(), positions.data(), at.size());
  for (size_t axis = 0; axis < 4; ++axis)
    problem.positions[axis] = reinterpret_cast<const int32_t*>(at.data()) + axis * kBatch * kTokens;
  const Memory& to = in_place ? in : out;
  problem.in = heads_at(in.data(), heads_first);
  problem.out = heads_at(to.data(), heads_first);
  gpu::rope(problem, table, machine);
  machine.download(x.data(), to.data(), x.size());
  return x;
}

TEST(GpuRope, HasTheBitsOfTheCpu) {
  ThreadPool pool(1);
  const std::vector<int32_t> positions = some_positions();
  on_machines([&](gpu::Machine& machine, const char* name) {
    for (const auto& [mode, pairing] : {std::pair{RopeMode::kInterleaved, RopePairing::kRopeHalf},
                                        {RopeMode::kMrope, RopePairing::kHeadHalf},
                                        {RopeMode::kImrope, RopePairing::kRopeHalf}})
      for (const ElementType type : {ElementType::kF32, ElementType::kBF16})
        for (const bool back : {false, true}) {
          const RopeTable table = table_of(mode, pairing);
          const bool heads_first = back;
          RopeProblem problem = problem_of(type, positions, back);
          std::vector<std::byte> x = numbers(type), expected(x.size());
          problem.in = heads_at(x.data(), heads_first);
          problem.out = heads_at(expected.data(), heads_first);
          rope(problem, table, supported_targets().front(), pool);
          for (const bool in_place : {false, true})
            EXPECT_EQ(on_machine(problem, table, heads_first, in_place, machine), expected)
                << name << " " << static_cast<int>(mode) << " " << info(type).name;
        }
  });
}

TEST(GpuRope, OtherTypesAreRefused) {
  const std::vector<int32_t> positions = some_positions();
  const auto machine = gpu::make_emulator();
  try {
    gpu::rope(problem_of(ElementType::kF64, positions, false),
              table_of(RopeMode::kNeox, RopePairing::kRopeHalf), *machine);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("elements of f64"), std::string::npos);
  }
}

}  // namespace
}  // namespace veery::test
