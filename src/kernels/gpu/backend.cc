#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/chain.h"
#include "kernels/gpu/launch/dequantized_weights.h"
#include "kernels/gpu/launch/recorder.h"
#include "kernels/gpu/masked_run.h"
#include "kernels/gpu/packing/pack.h"
#include "kernels/gpu/peak_rates.h"
#include "kernels/gpu/tensor/tensor_device.h"

namespace veery::gpu {
namespace {

// The phases of a GPU kernel are launches, so the host never calls one.
void never(const Dispatch&, const RunShape&, const Worker&) {}

// Gives an input of the run its address in the block at `base`.
void place_input(Operand& o, const RunInputsLayout& layout, std::byte* base) {
  if (o.input < 0) return;
  o.data = layout.input(static_cast<size_t>(o.input), base) + reinterpret_cast<uintptr_t>(o.data);
  o.input = -1;
}
std::vector<Step> with_inputs(std::span<const Step> steps, const RunInputsLayout& layout,
                              std::byte* base) {
  std::vector<Step> placed(steps.begin(), steps.end());
  for (Step& step : placed)
    for (Operand& in : step.dispatch.in) place_input(in, layout, base);
  return placed;
}
std::vector<Operand> with_inputs(std::span<const Operand> results, const RunInputsLayout& layout,
                                 std::byte* base) {
  std::vector<Operand> placed(results.begin(), results.end());
  for (Operand& result : placed) place_input(result, layout, base);
  return placed;
}

class GpuExecutable : public Executable {
 public:
  GpuExecutable(Machine& machine, DequantizedWeights& dequantized, std::span<const Step> table,
                std::span<const Operand> results, const TableUse& use)
      : machine_(machine),
        first_fetched_(use.first_fetched),
        layout_(use),
        end_(chain_end(machine, table, results, use)),
        inputs_(machine.allocate(layout_.bytes() + (end_ ? chain_bytes(*end_, use.rows) : 0))) {
    Recorder recorder{machine,
                      layout_.run(inputs_.data()),
                      use.rows,
                      use.outputs,
                      std::min(use.rows, max_sequences(use)),
                      use.exact};
    set_table_sizes(use, recorder);
    results_ = with_inputs(results, layout_, inputs_.data());
    const std::vector<Step> steps = with_inputs(table, layout_, inputs_.data());
    allocate_scratch(steps, recorder);
    recorder.mma_attention = !use.exact && has_mma_gemm(steps, machine);
    dequantize_weights(steps, dequantized, recorder);
    find_bf16_handovers(steps, results_, recorder);
    fuse_decode_steps(steps, recorder);
    for (const Step& step : steps) {
      recorder.row_of(step)->record(step.dispatch, recorder);
      ends_.push_back(recorder.launches.size());
    }
    launches_ = recorder.launches;
    Transfers transfers{inputs_.data(), layout_.bytes(), {}};
    for (const Operand& result : results_) {
      const auto most = static_cast<size_t>(recorder.max_rows(result.rows) * result.stride);
      transfers.back.push_back({result.data, most});
    }
    back_ = transfers.back;
    sizes_.resize(results_.size());
    memory_ = std::move(recorder.memory);
    dequantized_ = std::move(recorder.dequantized);
    // A chain repeats the launches without the host.
    if (end_ && layout_.can_chain()) step_ = recorder.launches;
    rows_ = use.rows;
    outputs_ = use.outputs;
    recording_ = machine.record(std::move(recorder.launches), transfers);
  }

  void run(const RunShape& shape) override {
    const bool masked = shape.mask != nullptr && MaskedRun::possible(launches_);
    if (masked && !masked_) make_masked();
    layout_.fill(shape, masked ? masked_->input() : recording_->input());
    for (size_t i = 0; i < results_.size(); ++i)
      sizes_[i] = i < first_fetched_ ? bytes_of(i, shape) : 0;
    if (masked)
      run_masked(shape);
    else
      recording_->run(sizes_);
    for (size_t i = first_fetched_; i < results_.size(); ++i) sizes_[i] = bytes_of(i, shape);
  }
  void run_profiled(const RunShape& shape, std::vector<double>& seconds) override {
    if (!parts_)
      parts_ = machine_.record_parts(launches_, {inputs_.data(), layout_.bytes(), {}}, ends_);
    layout_.fill(shape, parts_->input());
    parts_->run({});
    const std::vector<double> of_rows = parts_->seconds();
    seconds.resize(ends_.size(), 0);
    for (size_t i = 0; i < ends_.size(); ++i) seconds[i] += of_rows[i];
  }
  int32_t chain_steps() override {
    if (step_.empty()) return 0;
    if (!chain_) chain_.emplace(machine_, layout_, inputs_.data(), step_, *end_, rows_);
    return chain_->max_tokens();
  }
  bool chain_draws() const override { return !step_.empty() && end_->draws(); }
  void run_chain(const RunShape& shape, std::span<const ChainRow> rows) override {
    VEERY_CHECK(chain_steps() > 0);
    chain_->run(shape, rows);
  }
  std::span<const int32_t> chosen(int64_t row) const override { return chain_->chosen(row); }
  void fetch(size_t i) override {
    machine_.download(recording_->output(i), results_[i].data, sizes_[i]);
  }
  const std::byte* result(size_t i) const override { return recording_->output(i); }

 private:
  static void set_table_sizes(const TableUse& use, Recorder& recorder) {
    recorder.positions = use.rows;
    for (int group = 0; group < use.groups; ++group) {
      int32_t pages = 0;
      for (int32_t i = 0; i < use.shape->sequences; ++i)
        pages = std::max(pages, use.shape->table(group, i).count);
      recorder.group_pages.push_back(pages);
      recorder.positions = std::max(recorder.positions, int64_t{pages} * kPagePositions);
    }
  }
  // One block for all steps, which run one after the other.
  static void allocate_scratch(std::span<const Step> steps, Recorder& recorder) {
    size_t bytes = 0;
    for (const Step& step : steps)
      if (const LaunchRow* const row = recorder.row_of(step); row->scratch != nullptr)
        bytes = std::max(bytes, row->scratch(step.dispatch, recorder));
    if (bytes == 0) return;
    recorder.memory.push_back(recorder.machine.allocate(bytes));
    recorder.scratch = recorder.memory.back().data();
  }
  size_t bytes_of(size_t i, const RunShape& shape) const {
    return static_cast<size_t>(shape.count(results_[i].rows) * results_[i].stride);
  }
  void make_masked() {
    back_.resize(std::min(first_fetched_, back_.size()));
    masked_.emplace(machine_, launches_, Transfers{inputs_.data(), layout_.bytes(), {}}, back_,
                    outputs_);
  }
  void run_masked(const RunShape& shape) {
    const std::span<const size_t> sizes = std::span(sizes_).first(back_.size());
    masked_->run(*shape.mask, shape.outputs, sizes);
    // fetch() and result() find all results in one place, with or without masks.
    for (size_t i = 0; i < sizes.size(); ++i)
      if (recording_->output(i) != masked_->output(i))
        std::memcpy(recording_->output(i), masked_->output(i), sizes[i]);
  }

  Machine& machine_;
  size_t first_fetched_;
  RunInputsLayout layout_;
  std::optional<ChainEnd> end_;
  Memory inputs_;
  std::vector<Memory> memory_;
  std::map<const std::byte*, std::shared_ptr<const Memory>> dequantized_;
  std::vector<Operand> results_;
  std::vector<size_t> sizes_;
  std::unique_ptr<Recording> recording_;
  // To run the steps one by one: the launches of step i end before launch ends_[i].
  std::vector<Launch> launches_;
  std::vector<size_t> ends_;
  std::unique_ptr<Recording> parts_;
  // With token masks.
  std::vector<Transfers::Back> back_;  // all results
  std::optional<MaskedRun> masked_;
  // If the table can be chained.
  int64_t rows_ = 0, outputs_ = 0;
  std::vector<Launch> step_;
  std::optional<Chain> chain_;
};

class GpuBackend : public Backend {
 public:
  explicit GpuBackend(std::unique_ptr<Machine> machine)
      : machine_(std::move(machine)), dequantized_(*machine_) {}

  Device& device() override { return *machine_; }
  bool relaxed() const override { return machine_->relaxed(); }
  bool has(Op op) const override { return has_row(op, *machine_); }

  Operand weight(const WeightUse& use) const override {
    const auto format = weight_format(use.dtype);
    if (!format)
      throw Error(ErrorKind::kUnsupported, "weights of type {} cannot be used on {}",
                  info(use.dtype).name, machine_->name());
    return {.stride = panel_bytes(*format, use.cols),
            .rows = use.rows,
            .cols = static_cast<int32_t>(use.cols),
            .dtype = use.dtype,
            .layout = Layout::kPanels,
            .stack = static_cast<int32_t>(use.stack)};
  }
  size_t weight_bytes(const Operand& weight) const override {
    const int64_t panels = (weight.rows / weight.stack + kLanes - 1) / kLanes;
    return static_cast<size_t>(weight.stack * panels * weight.stride);
  }
  void pack(const Operand& weight, const std::byte* rows, int64_t first, int64_t last,
            std::byte* packed) const override {
    pack_rows(weight.dtype, rows, weight.cols, {first, last}, packed);
  }

  Kernel choose(Op op, const Dispatch& dispatch, const KernelChoice& choice) const override {
    const LaunchRow* row = find_row(op, dispatch, choice, *machine_);
    if (row == nullptr) {
      std::string operands;
      for (const Operand& o : dispatch.in)
        if (o)
          operands += fmt::format("{}{} {} x {}", operands.empty() ? "" : ", ", info(o.dtype).name,
                                  o.rows, o.cols);
      throw Error(ErrorKind::kUnsupported, "{}: no kernel on {} for {}{}", op->name,
                  machine_->name(), operands, choice.exact ? " with exact products" : "");
    }
    Kernel kernel{.name = row->name, .work = row->workspace};
    kernel.phases[0] = never;
    return kernel;
  }
  bool may_fuse(Op first, Op second, int64_t rows) const override {
    return may_fuse_decode(first, second, rows);
  }
  std::unique_ptr<Executable> lower(std::span<const Step> steps, std::span<const Operand> results,
                                    const TableUse& use) override {
    return std::make_unique<GpuExecutable>(*machine_, dequantized_, steps, results, use);
  }
  std::unique_ptr<TensorDevice> make_tensor_device() override {
    return gpu::make_tensor_device(*machine_);
  }
  double waited() const override { return machine_->waited(); }
  PeakRates peak_rates(std::span<const MemoryPiece> weights) override {
    return measure_peak_rates(*machine_, weights);
  }

 private:
  std::unique_ptr<Machine> machine_;
  DequantizedWeights dequantized_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::unique_ptr<Machine> machine) {
  return std::make_unique<GpuBackend>(std::move(machine));
}

}  // namespace veery::gpu
