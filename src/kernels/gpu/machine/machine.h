// machine.h: machines that run the kernels: CUDA, Metal, the emulator of the tests.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/dialect/emulator.h"
#include "kernels/gpu/machine/kernels.h"

namespace veery::gpu {

/// out = scale * x * w^T + residual by a library, which chooses the order of sums: x and w are
/// bf16, sums and residual f32.
struct MatrixProduct {
  const uint16_t* weights;  ///< [n][k], or [k][n] if `transposed`
  const uint16_t* x;        ///< [rows][k], x_stride elements apart
  int64_t x_stride;
  std::byte* out;  ///< [rows][n], f32, or bf16 if `rounded`, out_stride elements apart
  int64_t out_stride;
  const float* residual;  ///< [rows][n], residual_stride elements apart; nullptr: none
  int64_t residual_stride;
  int32_t rows, n, k, rounded;
  float scale;
  int32_t transposed = 0;
  int64_t weights_stride = 0;  ///< elements between rows of `weights`; 0: there are no gaps

  int64_t stride_of_weights() const {
    return weights_stride != 0 ? weights_stride : transposed != 0 ? n : k;
  }
};

/// One kernel launch: the kernel, its size and its parameters.
struct Launch {
  static constexpr size_t kMaxParamBytes = 640;
  KernelId kernel = KernelId::kCount;
  LaunchSize size;
  alignas(16) std::array<std::byte, kMaxParamBytes> params{};
  size_t bytes = 0;  ///< of `params` in use

  template <typename Params>
  static Launch of(KernelId kernel, const LaunchSize& size, const Params& params) {
    static_assert(sizeof(Params) <= kMaxParamBytes && std::is_trivially_copyable_v<Params>);
    Launch launch{kernel, size, {}, sizeof(Params)};
    std::memcpy(launch.params.data(), &params, sizeof(Params));
    return launch;
  }
  template <typename Params>
  Params as() const {
    Params own;
    std::memcpy(&own, params.data(), sizeof(Params));
    return own;
  }
};

/// The memory that is copied to the device before the launches of a run, and back after them.
struct Transfers {
  std::byte* to = nullptr;
  size_t bytes = 0;
  struct Back {
    const std::byte* from;
    size_t bytes;  ///< at most
  };
  std::vector<Back> back;
};

/// A sequence of launches that can be run again and again.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Host memory of Transfers::bytes bytes, copied to the device by each run.
  virtual std::byte* input() = 0;
  /// Host memory of block i of Transfers::back after a run.
  virtual std::byte* output(size_t i) = 0;
  /// Runs the launches and copies back `bytes[i]` bytes of block i.
  virtual void run(std::span<const size_t> bytes) = 0;
  /// Starts a recording that copies nothing back. It may still be running until run() of the next
  /// recording returns.
  virtual void start() { run({}); }
  /// Seconds of each part in the last run, for Machine::record_parts().
  virtual std::vector<double> seconds() const { return {}; }
};

/// A device that runs launches.
class Machine : public Device {
 public:
  virtual std::string_view name() const = 0;  ///< "cuda"
  /// Whether it runs MatrixProducts, and so KernelSet::kRelaxed.
  virtual bool relaxed() const { return false; }
  virtual bool has(KernelId kernel) const {
    const KernelSet set = kernel_info(kernel).set;
    return set != KernelSet::kMetal && (set != KernelSet::kRelaxed || relaxed());
  }
  /// False also if there is no such kernel.
  bool has(const KernelKey& key) const {
    const std::optional<KernelId> kernel = find_kernel(key);
    return kernel && has(*kernel);
  }
  /// Whether kernels may stage rows in shared memory: there is enough, and pointers to it are
  /// generic (kGenericPointers).
  virtual bool stages_rows() const { return true; }
  virtual int sm_count() const = 0;
  virtual int max_shared() const = 0;  ///< bytes of shared memory of a thread block
  virtual size_t max_launches() const { return SIZE_MAX; }  ///< of a recording
  virtual double waited() const { return 0; }               ///< Backend::waited()
  virtual std::unique_ptr<Recording> record(std::vector<Launch> launches,
                                            const Transfers& transfers) = 0;

  // Single launches, which are not recorded. They run in the order of the calls, on the stream of
  // the recordings; calls return before the work is done. The defaults throw kUnsupported.

  /// Makes the device current in this thread. The functions of pool() and those below need it.
  virtual void use_in_this_thread() {}
  /// `params`: of the kernel; they are copied.
  virtual void enqueue(KernelId kernel, const LaunchSize& size, std::span<const std::byte> params);
  /// `relaxed()` machines only.
  virtual void enqueue_product(const MatrixProduct& product);
  /// Returns when `host` may change, if it is not page-locked memory.
  virtual void enqueue_upload(std::byte* to, const void* host, size_t size);
  /// Waits until all work is done.
  virtual void wait_for_queue();

  /// As record(), but the launches are repeated while `*again`, in device memory, is not 0 after
  /// them; each pass clears it. Whole blocks are copied back. Returns nullptr if the machine has no
  /// loops.
  virtual std::unique_ptr<Recording> record_loop(std::vector<Launch> launches,
                                                 const Transfers& transfers, uint32_t* again);
  /// As record(), but divided into parts, which are timed and run strictly one after the other.
  /// Part i ends before launch `ends[i]`. Throws kUnsupported if the machine cannot time them.
  virtual std::unique_ptr<Recording> record_parts(std::vector<Launch> launches,
                                                  const Transfers& transfers,
                                                  std::span<const size_t> ends);
};

}  // namespace veery::gpu
