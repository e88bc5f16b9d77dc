#include "kernels/cpu/backend/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "device/host_device.h"
#include "kernels/cpu/backend/cpu_executable.h"
#include "kernels/cpu/backend/cpu_peak_rates.h"

namespace veery {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(ThreadPool& pool, Target target)
      : pool_(pool), target_(target), device_(std::string(name(target))) {}

  Device& device() override { return device_; }
  bool runs_on_host() const override { return true; }
  int workers() const override { return pool_.size(); }
  bool has(Op) const override { return true; }  // every op has a reference kernel

  Operand weight(const WeightUse& use) const override {
    const bool packed = can_pack(use.dtype) && !reads_in_file(use);
    Operand operand{.rows = use.rows,
                    .cols = static_cast<int32_t>(use.cols),
                    .dtype = use.dtype,
                    .layout = packed ? Layout::kPanels : Layout::kRowMajor,
                    .stack = static_cast<int32_t>(use.stack)};
    // Tensors that are computed are packed in pieces, which these formats need not allow.
    if (packed && use.argmax && use.stack == 1 && use.in_file)
      operand.format = format_for_argmax(use.dtype).panels;
    operand.stride = static_cast<int64_t>(packed ? panel_bytes(use.dtype, use.cols)
                                                 : byte_size(use.dtype, use.cols));
    return operand;
  }
  bool reads_in_file(const WeightUse& use) const override {
    return use.only_gathered && use.in_file && use.stack == 1;
  }
  size_t weight_bytes(const Operand& weight) const override {
    if (!in_panels(weight)) return static_cast<size_t>(weight.rows * weight.stride);
    return static_cast<size_t>(weight.stack) *
           packed_bytes({weight.dtype, weight.format}, weight.rows / weight.stack, weight.cols);
  }
  void pack(const Operand& weight, const std::byte* rows, int64_t first, int64_t last,
            std::byte* packed) const override {
    if (!in_panels(weight)) {
      std::memcpy(packed + first * weight.stride, rows,
                  static_cast<size_t>((last - first) * weight.stride));
      return;
    }
    const int64_t end = (last + kLanes - 1) / kLanes;
    if (weight.format != 0) {  // parts of a panel lie apart: it needs the beginning of the matrix
      const std::byte* const matrix =
          rows - first * static_cast<int64_t>(byte_size(weight.dtype, weight.cols));
      pack_panels({weight.dtype, weight.format}, matrix, weight.rows, weight.cols, packed,
                  first / kLanes, end);
      return;
    }
    pack_panels(weight.dtype, rows, last - first, weight.cols,
                packed + first / kLanes * weight.stride, 0, end - first / kLanes);
  }

  Kernel choose(Op op, const Dispatch& dispatch, const KernelChoice& choice) const override {
    KernelChoice own = choice;
    own.target = target_;
    return choose_kernel(op, dispatch, own);
  }
  std::unique_ptr<Executable> lower(std::span<const Step> steps, std::span<const Operand> results,
                                    const TableUse& use) override {
    return std::make_unique<CpuExecutable>(pool_, steps, results, use.memory);
  }
  PeakRates peak_rates(std::span<const MemoryPiece> weights) override {
    return measure_cpu_peak_rates(pool_, target_, weights);
  }

 private:
  ThreadPool& pool_;
  Target target_;
  HostDevice device_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(ThreadPool& pool, Target target) {
  return std::make_unique<CpuBackend>(pool, target);
}

}  // namespace veery
