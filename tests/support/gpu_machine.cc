// Compiles all kernels of CUDA for the emulator.
#define VEERY_GPU_CODE
#define VEERY_CUDA_CODE
#include "support/gpu_machine.h"

#include <cstdlib>

#include "base/error.h"

namespace veery::gpu {
namespace {

struct Function {
  void (*run)(const void* params) = nullptr;
  int max_threads = 0;  // per block
};
#define VEERY_GPU_IN(...) __VA_ARGS__
#define VEERY_GPU_FUNCTION(set, name, params, threads, least_blocks, key, function)      \
  {VEERY_GPU_IF_CUDA(                                                                    \
      set, [](const void* p) { VEERY_GPU_IN function(*static_cast<const params*>(p)); }, \
      threads)},
// Indexed by KernelId.
constexpr Function kFunctions[] = {VEERY_GPU_KERNELS(VEERY_GPU_FUNCTION)};
#undef VEERY_GPU_FUNCTION

class EmulatedRecording : public Recording {
 public:
  EmulatedRecording(std::vector<Launch> launches, Transfers transfers, uint32_t* again = nullptr)
      : launches_(std::move(launches)),
        transfers_(std::move(transfers)),
        again_(again),
        input_(transfers_.bytes),
        outputs_(transfers_.back.size()) {
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].resize(transfers_.back[i].bytes);
  }
  std::byte* input() override { return input_.data(); }
  std::byte* output(size_t i) override { return outputs_[i].data(); }
  void run(std::span<const size_t> bytes) override {
    if (!input_.empty()) std::memcpy(transfers_.to, input_.data(), input_.size());
    do {
      for (const Launch& launch : launches_)
        if (launch.kernel == KernelId::kMatrixProduct)
          multiply_on_host(launch.as<MatrixProduct>());
        else
          emulate(launch.kernel, launch.size, launch.params.data());
    } while (again_ != nullptr && std::exchange(*again_, 0) != 0);
    for (size_t i = 0; i < outputs_.size(); ++i)
      std::memcpy(outputs_[i].data(), transfers_.back[i].from, bytes[i]);
  }

 private:
  std::vector<Launch> launches_;
  Transfers transfers_;
  uint32_t* again_;
  std::vector<std::byte> input_;
  std::vector<std::vector<std::byte>> outputs_;
};

class Emulator : public Machine {
 public:
  std::string description() const override { return "emulator"; }
  std::string_view name() const override { return "emulator"; }
  Emulator(int max_shared, int sm_count, bool relaxed = false)
      : relaxed_(relaxed),
        max_shared_(max_shared),
        sm_count_(sm_count),
        pool_(
            {.allocate =
                 [](size_t size) { return static_cast<std::byte*>(std::aligned_alloc(256, size)); },
             .release = [](std::byte* data) { std::free(data); },
             .free_bytes = [] { return size_t{1} << 40; },
             .name = "emulator"}) {}
  int sm_count() const override { return sm_count_; }
  int max_shared() const override { return max_shared_; }
  bool relaxed() const override { return relaxed_; }
  // Each block is allocated separately, so that ASan detects out-of-bounds accesses.
  Memory allocate(size_t size) override {
    std::byte* data = pool_.allocate(size);
    std::memset(data, 0, size);
    return Memory(data, size, *this);
  }
  void release(std::byte* data) noexcept override { pool_.release(data); }
  MemoryPool* pool() override { return &pool_; }
  void enqueue(KernelId kernel, const LaunchSize& size,
               std::span<const std::byte> params) override {
    emulate(kernel, size, params.data());
  }
  void enqueue_product(const MatrixProduct& product) override { multiply_on_host(product); }
  void enqueue_upload(std::byte* to, const void* host, size_t size) override {
    if (size > 0) std::memcpy(to, host, size);
  }
  void wait_for_queue() override {}
  void upload(std::byte* to, const void* host, size_t size) override {
    std::memcpy(to, host, size);
  }
  void download(void* host, const std::byte* from, size_t size) override {
    std::memcpy(host, from, size);
  }
  void copy(std::byte* to, const std::byte* from, size_t size) override {
    std::memmove(to, from, size);
  }
  std::unique_ptr<Recording> record(std::vector<Launch> launches,
                                    const Transfers& transfers) override {
    return std::make_unique<EmulatedRecording>(std::move(launches), transfers);
  }

  std::unique_ptr<Recording> record_loop(std::vector<Launch> launches, const Transfers& transfers,
                                         uint32_t* again) override {
    return std::make_unique<EmulatedRecording>(std::move(launches), transfers, again);
  }

 private:
  bool relaxed_;
  int max_shared_, sm_count_;
  MemoryPool pool_;
};

}  // namespace

void multiply_on_host(const MatrixProduct& p) {
  std::vector<float> x(static_cast<size_t>(p.k)),
      w(static_cast<size_t>(p.k) * static_cast<size_t>(p.n));
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t k = 0; k < p.k; ++k)
      w[static_cast<size_t>(n * p.k + k)] =
          bf16_to_f32(p.weights[p.transposed != 0 ? k * p.stride_of_weights() + n
                                                  : n * p.stride_of_weights() + k]);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t k = 0; k < p.k; ++k)
      x[static_cast<size_t>(k)] = bf16_to_f32(p.x[r * p.x_stride + k]);
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += double{x[static_cast<size_t>(k)]} * w[static_cast<size_t>(n * p.k + k)];
      sum *= p.scale;
      if (p.residual != nullptr) sum += p.residual[r * p.residual_stride + n];
      const auto y = static_cast<float>(sum);
      const int64_t at = r * p.out_stride + n;
      if (p.rounded != 0)
        reinterpret_cast<uint16_t*>(p.out)[at] = f32_to_bf16(y);
      else
        reinterpret_cast<float*>(p.out)[at] = y;
    }
  }
}

void emulate(KernelId kernel, const LaunchSize& size, const void* params) {
  const Function& function = kFunctions[static_cast<size_t>(kernel)];
  VEERY_CHECK(size.threads > 0 && size.threads % 32 == 0 && size.threads <= function.max_threads);
  emulated::run(function.run, params, size);
}

std::unique_ptr<Machine> make_emulator(int max_shared, int sm_count) {
  return std::make_unique<Emulator>(max_shared, sm_count);
}

std::unique_ptr<Machine> make_relaxed_emulator() {
  return std::make_unique<Emulator>(227 << 10, 2, true);
}

}  // namespace veery::gpu
