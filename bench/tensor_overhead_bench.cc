// The cost on the host of lazy tensors: building a node, evaluating small graphs, and calling
// compiled functions. Tensors have 16 elements, so that kernels take no time.
#include <benchmark/benchmark.h>

#include <veery/tensor_transforms.hpp>

namespace veery::tensor {
namespace {

constexpr int kOps = 64;

using Tensors = std::vector<Tensor>;

// A chain of element-wise functions.
Tensors chain(std::span<const Tensor> in) {
  Tensor x = in[0];
  for (int i = 0; i < kOps / 2; ++i) x = (x + in[1]) * in[1];
  return {x};
}
// Layers: products, which are not fused, with a chain between them.
Tensors layers(std::span<const Tensor> in) {
  Tensor x = in[0];
  for (int i = 0; i < kOps / 4; ++i) x = tanh(matmul(x, in[1]) + in[1]) * in[1];
  return {x};
}
Tensors arguments() {
  Tensors made = {full({4, 4}, 0.5), full({4, 4}, 0.25)};
  eval(made);
  return made;
}

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kOps);
  state.counters["per_op"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kOps,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

using Fn = Tensors (*)(std::span<const Tensor>);

void build(benchmark::State& state, Fn fn) {
  const Tensors in = arguments();
  for (auto _ : state) benchmark::DoNotOptimize(fn(in));
  report(state);
}
void evaluate(benchmark::State& state, Fn fn) {
  const Tensors in = arguments();
  for (auto _ : state) fn(in)[0].eval();
  report(state);
}
void compiled(benchmark::State& state, Fn fn) {
  const Tensors in = arguments();
  const Function plan = compile(fn);
  for (auto _ : state) plan(in)[0].eval();
  report(state);
}
BENCHMARK_CAPTURE(build, chain, chain);
BENCHMARK_CAPTURE(evaluate, chain, chain);
BENCHMARK_CAPTURE(compiled, chain, chain);
BENCHMARK_CAPTURE(build, layers, layers);
BENCHMARK_CAPTURE(evaluate, layers, layers);
BENCHMARK_CAPTURE(compiled, layers, layers);

}  // namespace
}  // namespace veery::tensor
