// Measures functions of tensors. bench/peers/tensor.py compares them with PyTorch and MLX; --filter
// of Google Benchmark selects cases.
#include <benchmark/benchmark.h>

#include <veery/tensor.hpp>

namespace veery::tensor {
namespace {

Tensor matrix(int64_t n, Dtype type) {
  const Tensor x = astype(random::normal(random::key(1), {n, n}), type);
  x.eval();
  return x;
}

void matmul_of(benchmark::State& state, Dtype type) {
  const int64_t n = state.range(0);
  const Tensor a = matrix(n, type), b = matrix(n, type);
  for (auto _ : state) matmul(a, b).eval();
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(n * n * n),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
void matmul_f32(benchmark::State& state) { matmul_of(state, Dtype::kF32); }
void matmul_bf16(benchmark::State& state) { matmul_of(state, Dtype::kBF16); }
BENCHMARK(matmul_f32)->Arg(1024)->Arg(2048)->Arg(4096)->UseRealTime();
BENCHMARK(matmul_bf16)->Arg(1024)->Arg(2048)->Arg(4096)->UseRealTime();

// Eight element-wise functions and a sum over 2^24 elements.
void chain(benchmark::State& state) {
  const Tensor x = random::normal(random::key(2), {int64_t{1} << 24});
  x.eval();
  for (auto _ : state) {
    Tensor y = x * 1.5 + 0.25;
    y = exp(-0.5 * y);
    y = tanh(y * y + x);
    benchmark::DoNotOptimize(sum(maximum(y, 0.1)).item<float>());
  }
}
BENCHMARK(chain)->UseRealTime();

// Host time per lazy op: 1,000 small additions, built and evaluated.
void small_ops(benchmark::State& state) {
  constexpr int kOps = 1000;
  const Tensor x = ones({4});
  for (auto _ : state) {
    Tensor y = x;
    for (int i = 0; i < kOps; ++i) y = y + x;
    y.eval();
  }
  state.SetItemsProcessed(state.iterations() * kOps);
}
BENCHMARK(small_ops)->UseRealTime();

}  // namespace
}  // namespace veery::tensor
