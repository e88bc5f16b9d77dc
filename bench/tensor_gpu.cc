// tensor_gpu DEVICE: measures tensors on a GPU, and compares bits with the CPU. DEVICE: "cuda:0".
//
// Bandwidths count the bytes of operands and results that an ideal program reads and writes. Each
// number is the median of several rounds.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <string>
#include <vector>
#include <veery/tensor.hpp>

#include "tensor/devices.h"

namespace veery::tensor {
namespace {

constexpr int64_t kElements = int64_t{1} << 26;
constexpr int kRounds = 7, kPerRound = 10;

double median_seconds(const Device& device, const std::function<void()>& run) {
  run();  // loads kernels, and fills the cache of memory
  synchronize(device);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kPerRound; ++i) run();
    synchronize(device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds.push_back(taken.count() / kPerRound);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void show_bandwidth(const std::string& what, double bytes, double seconds, double of) {
  fmt::print("{:<44} {:8.1f} us {:8.1f} GB/s {:6.1f} %\n", what, seconds * 1e6,
             bytes / seconds * 1e-9, of > 0 ? bytes / seconds / of * 100 : 100.0);
}

// Bytes per second of the driver's copy.
double copy_bandwidth(const Device& device) {
  veery::Device& memory = device.state()->backend->device();
  const size_t bytes = size_t{kElements} * 4;
  const Memory from = memory.allocate(bytes), to = memory.allocate(bytes);
  const double seconds =
      median_seconds(device, [&] { memory.copy(to.data(), from.data(), bytes); });
  show_bandwidth("copy by the driver, 256 MiB", 2.0 * static_cast<double>(bytes), seconds, 0);
  return 2.0 * static_cast<double>(bytes) / seconds;
}

// Eight functions of one operand, with a second one that is read as a row if it is one.
Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor z = x * y + 0.5;
  z = maximum(z, -1.0) * x;
  z = where(less(z, 2.0), z, y) - x;
  return z * 0.25 + 1.0;
}
Tensor simple_chain(const Tensor& x) {
  Tensor z = x * 1.01 + 0.5;
  z = maximum(z, -4.0) * 0.9;
  z = minimum(z, 4.0) - 0.125;
  return z * 1.1 + 0.25;
}

void measure_chains(const Device& device, double copy) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16}) {
    const auto bytes = static_cast<double>(kElements) * static_cast<double>(byte_size(type));
    const Tensor key = to_device(random::key(1), device);
    const Tensor x = random::normal(key, {kElements}, 0, 1, type);
    const Tensor y = random::normal(to_device(random::key(2), device), {kElements}, 0, 1, type);
    eval(std::array{x, y});
    const auto show = [&](const char* what, double operands, const std::function<Tensor()>& fn) {
      const double seconds = median_seconds(device, [&] { fn().eval(); });
      show_bandwidth(fmt::format("{} {}", name(type), what), operands * bytes, seconds, copy);
    };
    show("1 function", 2, [&] { return x * 1.5; });
    show("8 functions", 2, [&] { return simple_chain(x); });
    show("8 functions, sum", 1, [&] { return sum(simple_chain(x)); });
    show("9 functions of 2 operands", 3, [&] { return chain(x, y); });
    show("tanh(exp(x) * x)", 2, [&] { return tanh(exp(x) * x); });
    const Tensor rows = reshape(x, {kElements / 4096, 4096});
    const Tensor row = reshape(slice(y, {{0, 4096, 1}}), {1, 4096});
    show("8 functions, row operand", 2, [&] { return simple_chain(rows * row); });
    show("softmax, rows of 4096 (3 passes)", 4, [&] { return softmax(rows); });
    show("sum over the first axis", 1, [&] { return sum(rows, {0}); });
    show("transpose", 2, [&] { return transpose(rows) * 1.5; });
  }
}

void measure_products(const Device& device) {
  for (const Dtype type : {Dtype::kBF16, Dtype::kF32}) {
    constexpr int64_t kSize = 4096;
    const Tensor a = random::normal(to_device(random::key(3), device), {kSize, kSize}, 0, 1, type);
    const Tensor b = random::normal(to_device(random::key(4), device), {kSize, kSize}, 0, 1, type);
    eval(std::array{a, b});
    const double seconds = median_seconds(device, [&] { matmul(a, b).eval(); });
    fmt::print("{:<44} {:8.1f} us {:8.1f} TFLOP/s\n", fmt::format("{} matmul 4096", name(type)),
               seconds * 1e6, 2.0 * kSize * kSize * kSize / seconds * 1e-12);
  }
}

void measure_host(const Device& device) {
  const Tensor x = to_device(ones({256}) * 2, device);
  x.eval();
  constexpr int kFunctions = 1000;
  const double seconds = median_seconds(device, [&] {
    Tensor y = x;
    for (int i = 0; i < kFunctions; ++i) y = y + x;
    y.eval();
  });
  fmt::print("{:<44} {:8.2f} us\n", "host time of a function in a chain",
             seconds / kFunctions * 1e6);
}

using Args = std::vector<Tensor>;
/// Types whose results have the bits of the CPU. Others come from libraries and may differ
/// slightly.
enum class Exact : uint8_t { kAll, kAllButF64, kNone };
struct Check {
  const char* what;
  std::function<Tensor(const Args&)> fn;
  Exact exact = Exact::kAll;
};

std::vector<Check> checks() {
  return {
      {"arithmetic", [](const Args& a) { return (a[0] * a[1] + 0.5) / (a[1] * a[1] + 1) - a[0]; }},
      {"comparisons", [](const Args& a) { return where(less(a[0], a[1]), a[0], -a[1]); }},
      {"sqrt, reciprocal", [](const Args& a) { return rsqrt(abs(a[0])) + reciprocal(a[1]); }},
      {"exp, log", [](const Args& a) { return exp(a[0] * 10) + log(abs(a[1])); },
       Exact::kAllButF64},
      {"tanh, sigmoid", [](const Args& a) { return tanh(a[0]) * sigmoid(a[1]); },
       Exact::kAllButF64},
      {"rounding", [](const Args& a) { return floor(a[0] * 3) + round(a[1] * 5); }},
      {"remainder", [](const Args& a) { return remainder(a[0], a[1]) + floor_divide(a[0], a[1]); }},
      {"casts", [](const Args& a) { return astype(astype(a[0] * 50, Dtype::kI8), Dtype::kF32); }},
      {"views", [](const Args& a) { return transpose(a[0]) + flip(transpose(a[1]), {0}); }},
      {"sum", [](const Args& a) { return sum(a[0] * a[1]); }},
      {"sum of rows", [](const Args& a) { return sum(a[0], {1}); }},
      {"sum of columns", [](const Args& a) { return sum(a[0] + 1, {0}); }},
      {"product, maximum", [](const Args& a) { return prod(a[0] + 1, {1}) + max(a[1], {1}); }},
      {"softmax", [](const Args& a) { return softmax(a[0]); }, Exact::kAllButF64},
      {"sort", [](const Args& a) { return sort(a[0]); }},
      {"argmax", [](const Args& a) { return argmax(a[0], 1); }},
      {"cumsum", [](const Args& a) { return cumsum(a[0], 1); }},
      {"take",
       [](const Args& a) {
         return take(a[0], argsort(slice(a[1], {{}, {0, 1, 1}}), 0), 0);
       }},
      {"scatter_add",
       [](const Args& a) { return scatter_add(a[0], flatten(argmax(a[1], 1) % 7), a[1], 0); }},
      {"concatenate, pad",
       [](const Args& a) {
         return pad(concatenate({a[0], a[1]}, 1), {{1, 2}, {3, 0}}, 7);
       }},
      {"library functions", [](const Args& a) { return sin(a[0]) + erf(a[1]) + log1p(abs(a[0])); },
       Exact::kNone},
  };
}

// Returns the number of checks that failed.
int compare_bits(const Device& device) {
  int failed = 0;
  const auto report = [&](const std::string& what, bool exact, const Tensor& cpu,
                          const Tensor& gpu) {
    const std::vector<double> x = cpu.values<double>(), y = gpu.values<double>();
    size_t differing = 0;
    double most = 0;
    for (size_t i = 0; i < x.size() && x.size() == y.size(); ++i) {
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      ++differing;
      most = std::max(most, std::fabs(x[i] - y[i]) / std::max(1.0, std::fabs(x[i])));
    }
    const bool fits = x.size() == y.size() && (exact ? differing == 0 : most < 1e-2);
    if (!fits) ++failed;
    if (!fits || (!exact && differing > 0))
      fmt::print("{} {}: {} of {} elements differ, by at most {:.2g}\n", fits ? "note" : "FAILED",
                 what, differing, x.size(), most);
  };
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kF64}) {
    const Tensor key = random::key(5);
    const std::vector<Tensor> keys = split(random::split(key, 2), 2);
    const Args here = {random::uniform(squeeze(keys[0], {0}), {300, 1111}, -1, 1, type),
                       random::uniform(squeeze(keys[1], {0}), {300, 1111}, -1, 1, type)};
    const Args there = {to_device(here[0], device), to_device(here[1], device)};
    for (const Check& check : checks())
      report(
          fmt::format("{} {}", name(type), check.what),
          check.exact == Exact::kAll || (check.exact == Exact::kAllButF64 && type != Dtype::kF64),
          check.fn(here), check.fn(there));
    report(fmt::format("{} matmul", name(type)), type != Dtype::kBF16,
           matmul(here[0], transpose(here[1])), matmul(there[0], transpose(there[1])));
    report(fmt::format("{} random numbers", name(type)), true,
           random::uniform(key, {100001}, 0, 1, type),
           random::uniform(to_device(key, device), {100001}, 0, 1, type));
    report(fmt::format("{} normal numbers", name(type)), false,
           random::normal(key, {100001}, 0, 1, type),
           random::normal(to_device(key, device), {100001}, 0, 1, type));
  }
  fmt::print("bits: {}\n",
             failed == 0 ? "all checks passed" : fmt::format("{} checks FAILED", failed));
  return failed;
}

int measure(const char* named) {
  const Device device{named};
  fmt::print("{}\n", device.description());
  const int failed = compare_bits(device);
  const double copy = copy_bandwidth(device);
  measure_chains(device, copy);
  measure_products(device);
  measure_host(device);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace veery::tensor

int main(int argc, char** argv) {
  try {
    return veery::tensor::measure(argc > 1 ? argv[1] : "cuda");
  } catch (const std::exception& error) {
    fmt::print(stderr, "tensor_gpu: {}\n", error.what());
    return 1;
  }
}
