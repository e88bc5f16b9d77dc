// Measures `linear` on packed weights: decode against a plain read loop (bytes per second), batches
// and prefill (a multiply-add counts as two operations), and packing.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "dtype/affine.h"
#include "kernels/cpu/linear.h"

namespace veery {
namespace {

// Pins workers: the scheduler may leave a spinning pair on one core.
ThreadPool& pool(int threads) {
  static ThreadPool one(1);
  static ThreadPool two(2);
  static const bool pinned = [] {
    two.run([](int index) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(index, &set);
      sched_setaffinity(0, sizeof set, &set);
    });
    return true;
  }();
  return threads == 1 || !pinned ? one : two;
}

// Memory in 2 MiB pages if available, like a plan's weights.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_((bytes >> 21) + 2) {
    bytes_ <<= 21;
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, bytes_, MADV_HUGEPAGE);
    std::memset(p, 0x3c, bytes_);  // a number of usual magnitude in every type of scale and element
    data_ = static_cast<std::byte*>(p);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(data_, bytes_); }
  std::byte* data() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(data_) + 63) & ~uintptr_t{63});
  }

 private:
  size_t bytes_;
  std::byte* data_;
};

// Copies of one weight that together fill `set` bytes; each run uses the next copy.
struct Case {
  Case(DType type, int64_t height, int64_t cols, int64_t rows, int workers, size_t set)
      : threads(workers),
        bytes(packed_bytes(type, height, cols)),
        copies(std::max<size_t>(1, set / bytes)),
        weights(bytes * copies),
        x(static_cast<size_t>(rows * cols)),
        y(static_cast<size_t>(rows * height)),
        scratch_size(0) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(rng);
    d.in[0] = matrix(x, rows, cols);
    d.in[3] = {.data = weights.data(),
               .stride = static_cast<int64_t>(panel_bytes(type, cols)),
               .rows = height,
               .cols = static_cast<int32_t>(cols),
               .dtype = type,
               .layout = Layout::kPanels};
    d.out() = matrix(y, rows, height);
    d.attr = FusedLinearAttr{};
    kernel = linear_kernel(op::kFusedLinear, d, {supported_targets().front(), rows});
    if (kernel.work != nullptr) work.resize(kernel.work(d, {rows, 1, workers}) + 64);
    scratch_size = (kernel.scratch(d, {rows, 1, workers}) + 127) / 64 * 64;
    scratch.resize(scratch_size * static_cast<size_t>(workers) + 64);
    d.work = aligned(work);
  }
  static std::byte* aligned(std::vector<std::byte>& v) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(v.data()) + 63) &
                                        ~uintptr_t{63});
  }
  static Operand matrix(std::vector<float>& v, int64_t rows, int64_t cols) {
    return {.data = reinterpret_cast<std::byte*>(v.data()),
            .stride = cols * 4,
            .rows = rows,
            .cols = static_cast<int32_t>(cols),
            .layout = Layout::kRowMajor};
  }
  // Runs all copies once.
  void run() {
    ThreadPool& workers = pool(threads);
    workers.run([&](int index) {
      Dispatch own = d;
      const Worker worker = {index, threads,
                             aligned(scratch) + scratch_size * static_cast<size_t>(index)};
      for (size_t c = 0; c < copies; ++c) {
        own.in[3].data = d.in[3].data + c * bytes;
        for (const KernelFn phase : kernel.phases)
          if (phase != nullptr) {
            phase(own, {}, worker);
            workers.barrier().wait();
          }
      }
    });
  }

  int threads;
  size_t bytes, copies;
  Memory weights;
  std::vector<float> x, y;
  size_t scratch_size;
  std::vector<std::byte> work, scratch;
  Dispatch d;
  Kernel kernel;
};

void linear(benchmark::State& state, DType type, int64_t height, int64_t cols, int64_t rows,
            int threads, size_t set) {
  Case c(type, height, cols, rows, threads, set);
  for (auto _ : state) c.run();
  const auto times = static_cast<double>(state.iterations());
  const double bytes = times * static_cast<double>(c.bytes * c.copies);
  const double ops =
      times * 2 * static_cast<double>(height * cols * rows) * static_cast<double>(c.copies);
  state.counters["B/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsRate);
  state.counters["op/s"] = benchmark::Counter(ops, benchmark::Counter::kIsRate);
}

void read_loop(benchmark::State& state, int threads, size_t set) {
  Memory memory(set);
  using Vector [[gnu::vector_size(64), gnu::aligned(64)]] = uint64_t;
  const size_t share = set / 1024 / static_cast<size_t>(threads) * 1024;
  for (auto _ : state)
    pool(threads).run([&](int index) {
      const auto* p =
          reinterpret_cast<const Vector*>(memory.data() + share * static_cast<size_t>(index));
      Vector a = {}, b = {}, c = {}, d = {};
      for (const Vector* end = p + share / 64; p < end; p += 4) {
        a ^= p[0];
        b ^= p[1];
        c ^= p[2];
        d ^= p[3];
      }
      benchmark::DoNotOptimize((a ^ b ^ c ^ d)[0]);
    });
  state.counters["B/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(set),
                         benchmark::Counter::kIsRate);
}

void pack(benchmark::State& state, DType type) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kCols = 1024;
  std::vector<std::byte> source(static_cast<size_t>(kRows) * byte_size(type, kCols));
  std::vector<std::byte> target(packed_bytes(type, kRows, kCols));
  for (auto _ : state) pack_panels(type, source.data(), kRows, kCols, target.data(), 0, kRows / 16);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(source.size()));
}

constexpr DType kTypes[] = {
    DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,   DType::kQ5_1,    DType::kQ8_0,  DType::kIQ4_NL,
    DType::kMXFP4,  DType::kNVFP4, DType::kQ2_K,   DType::kQ3_K,    DType::kQ4_K,  DType::kQ5_K,
    DType::kQ6_K,   DType::kQ8_K,  DType::kIQ4_XS, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ2_XXS,
    DType::kIQ2_XS, DType::kIQ1_S, DType::kIQ1_M,  DType::kTQ1_0,   DType::kF32,   DType::kF16,
    DType::kBF16,   DType::kMXFP8, DType::kFP8_32, DType::kFP8_128};
// Returns all types; of affine types, each number of bits with groups of 64, and 4 bits with all
// groups and scales.
std::vector<DType> types() {
  std::vector<DType> all(std::begin(kTypes), std::end(kTypes));
  for (int i = 0; i < kAffineTypes; ++i) {
    const AffineFormat format = affine_format(affine_at(i));
    if (format.bits == 4 || (format.group == 64 && format.scale == DType::kBF16))
      all.push_back(affine_at(i));
  }
  return all;
}

// Registers the benchmarks before main().
const int kRegistered = [] {
  const auto add = [](const std::string& name, auto... args) {
    benchmark::RegisterBenchmark(name.c_str(), args...)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const int threads : {1, 2})
    for (const size_t mib : {1, 100, 1000})
      add("read/" + std::to_string(mib) + "MiB/threads:" + std::to_string(threads), read_loop,
          threads, mib << 20);
  for (const DType type : types()) {
    const std::string name(info(type).name);
    for (const int threads : {1, 2})
      for (const size_t mib : {1, 100, 1000})
        add("decode/" + name + "/" + std::to_string(mib) + "MiB/threads:" + std::to_string(threads),
            linear, type, int64_t{2048}, int64_t{2048}, int64_t{1}, threads, mib << 20);
    for (const int rows : {2, 4, 5, 8, 12, 16})
      for (const int threads : {1, 2})
        add("batch/" + name + "/" + std::to_string(rows) + "/threads:" + std::to_string(threads),
            linear, type, int64_t{1536}, int64_t{768}, int64_t{rows}, threads, size_t{100} << 20);
    constexpr std::pair<int, int> kShapes[] = {{576, 512}, {1536, 768}, {768, 1536}, {2048, 2048}};
    for (const auto& [height, cols] : kShapes)
      for (const int threads : {1, 2})
        add("prefill/" + name + "/" + std::to_string(height) + "x" + std::to_string(cols) +
                "/threads:" + std::to_string(threads),
            linear, type, int64_t{height}, int64_t{cols}, int64_t{512}, threads, size_t{0});
    for (const int cols : {768, 1536})
      add("overhead/" + name + "/16x" + std::to_string(cols), linear, type, int64_t{16},
          int64_t{cols}, int64_t{1}, 1, size_t{0});
    add("pack/" + name, pack, type);
  }
  return 0;
}();

}  // namespace
}  // namespace veery
