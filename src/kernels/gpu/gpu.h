// gpu.h: kernels for GPUs on a machine that can run them: CUDA, or the emulator of the tests.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/params/rope_angles_params.h"
#include "kernels/gpu/params/params.h"
#include "kernels/gpu/params/chain_params.h"
#include "kernels/gpu/params/peak_rate_params.h"
#include "kernels/gpu/params/quantize_x_groups_params.h"
#include "kernels/gpu/params/recurrence_params.h"
#include "kernels/gpu/params/relaxed_params.h"
#include "kernels/gpu/params/row_op_params.h"
#include "kernels/gpu/params/top_k_params.h"
#include "kernels/gpu/smem/gemm_wgmma_smem.h"
#include "kernels/gpu/params/attend_general_params.h"
#include "kernels/gpu/dialect/emulator.h"
#include "kernels/gpu/kernel_list.h"

namespace veery::gpu {

#define VEERY_GPU_ENUMERATE(name, arguments, threads, function) name,
/// The kernels, in the order of kernel_list.h: those that CUDA and the emulator have, then others.
enum class KernelId : int {
  VEERY_GPU_KERNELS(VEERY_GPU_ENUMERATE) kUsual,
  kLastUsual = kUsual - 1,
  VEERY_GPU_METAL_OWN_KERNELS(VEERY_GPU_ENUMERATE) kCount,
  kMatrixProduct = kCount  ///< no kernel of ours: a MatrixProduct by a library of the machine's
};
#undef VEERY_GPU_ENUMERATE
std::string_view name(KernelId kernel);
/// Whether it is one of those that only GPUs with warpgroups have.
constexpr bool by_warpgroups(KernelId kernel) {
  return kernel >= KernelId::linear_planes_k4m && kernel < KernelId::expand;
}

/// out = scale x w^T + residual by a library, whose order of sums is its own: x and w are bf16,
/// sums and residual f32.
struct MatrixProduct {
  const uint16_t* weights;  ///< [n][k]
  const uint16_t* x;        ///< [rows][k], x_stride elements apart
  int64_t x_stride;
  std::byte* out;  ///< [rows][n], f32 or, `rounded`, bf16, out_stride elements apart
  int64_t out_stride;
  const float* residual;  ///< [rows][n], residual_stride elements apart; nullptr: none
  int64_t residual_stride;
  int32_t rows, n, k, rounded;
  float scale;
};

/// One kernel, its arguments, its size.
struct Launch {
  static constexpr size_t kMostBytes = 640;
  KernelId kernel = KernelId::kCount;
  LaunchSize size;
  alignas(16) std::array<std::byte, kMostBytes> arguments{};
  size_t bytes = 0;

  template <typename A>
  static Launch of(KernelId kernel, const LaunchSize& size, const A& arguments) {
    static_assert(sizeof(A) <= kMostBytes && std::is_trivially_copyable_v<A>);
    Launch launch{kernel, size, {}, sizeof(A)};
    std::memcpy(launch.arguments.data(), &arguments, sizeof(A));
    return launch;
  }
  template <typename A>
  A as() const {
    A own;
    std::memcpy(&own, arguments.data(), sizeof(A));
    return own;
  }
};

/// A block of memory that goes to the device before the launches of a run, and blocks that come
/// back behind them.
struct Transfers {
  std::byte* to = nullptr;
  size_t bytes = 0;
  struct Back {
    const std::byte* from;
    size_t bytes;  ///< at most
  };
  std::vector<Back> back;
};

/// Launches in order, made ready to be run again and again.
class Recording {
 public:
  virtual ~Recording() = default;
  /// What goes to the device.
  virtual std::byte* input() = 0;
  /// What came back.
  virtual std::byte* output(size_t i) = 0;
  /// `bytes`: of each block that comes back.
  virtual void run(std::span<const size_t> bytes) = 0;
  /// Begins what brings nothing back; the machine may go on with it until the next recording has
  /// been run.
  virtual void start() { run({}); }
  /// Of what was recorded in parts: how long each took in the last run.
  virtual std::vector<double> seconds() const { return {}; }
};

/// Runs launches.
class Machine : public Device {
 public:
  virtual std::string_view name() const = 0;  ///< "cuda"
  /// Whether it makes MatrixProducts, and so has the kernels whose bits are not the CPU's.
  virtual bool relaxed() const { return false; }
  virtual bool has(KernelId kernel) const {
    return kernel < (relaxed() ? KernelId::kUsual : KernelId::expand);
  }
  /// Whether kernels may bring rows to a block's memory, of which there is much (kOneKind).
  virtual bool stages() const { return true; }
  virtual int processors() const = 0;                        ///< that run blocks side by side
  virtual int most_shared() const = 0;                       ///< bytes of shared memory, of a block
  virtual size_t most_launches() const { return SIZE_MAX; }  ///< of a recording
  virtual double waited() const { return 0; }                ///< Backend::waited()
  virtual std::unique_ptr<Recording> record(std::vector<Launch> launches,
                                            const Transfers& transfers) = 0;
  /// The same with launches that are gone through again as long as `*again`, in the device's
  /// memory, is not 0 behind them, which then becomes 0; whole blocks come back. nullptr where the
  /// machine has no loops.
  virtual std::unique_ptr<Recording> record_loop(std::vector<Launch> launches,
                                                 const Transfers& transfers, uint32_t* again);
  /// As record(), in parts, of which part i ends in front of launch `ends[i]`: a part begins when
  /// all before it has ended. Throws kUnsupported where the machine cannot time them.
  virtual std::unique_ptr<Recording> record_parts(std::vector<Launch> launches,
                                                  const Transfers& transfers,
                                                  std::span<const size_t> ends);
};

/// The backend of a machine.
std::unique_ptr<Backend> make_backend(std::unique_ptr<Machine> machine);

}  // namespace veery::gpu
