#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/chain.h"
#include "kernels/gpu/dequantized_weights.h"
#include "kernels/gpu/launches.h"
#include "kernels/gpu/packing/pack.h"
#include "kernels/gpu/peak_rates.h"
#include "kernels/gpu/masked_run.h"

namespace veery::gpu {
namespace {

// Phases of such kernels are launches.
void never(const Dispatch&, const Slots&, const Worker&) {}

// What the host writes before a run, and its place on the device.
class InputPlaces {
 public:
  InputPlaces(Machine& machine, std::span<const Operand> inputs, const Recorder& recorder) {
    for (const Operand& from : inputs)
      places_.push_back(
          {from, machine.allocate(static_cast<size_t>(recorder.most(from.rows) * from.stride))});
  }
  bool empty() const { return places_.empty(); }
  /// Rows of a table with addresses of the device.
  std::vector<Step> placed(std::span<const Step> steps) const {
    std::vector<Step> all(steps.begin(), steps.end());
    for (Step& step : all)
      for (Operand& in : step.dispatch.in)
        for (const Place& place : places_) {
          const std::less<> before;
          const std::byte* const first = place.from.data;
          if (!in || before(in.data, first) || !before(in.data, first + place.memory.size()))
            continue;
          in.data = place.memory.data() + (in.data - first);
          break;
        }
    return all;
  }
  void upload(Machine& machine, const Slots& slots) const {
    for (const Place& place : places_)
      machine.upload(place.memory.data(), place.from.data,
                     static_cast<size_t>(slots.count(place.from.rows) * place.from.stride));
  }

 private:
  struct Place {
    Operand from;
    Memory memory;
  };
  std::vector<Place> places_;
};

class GpuExecutable : public Executable {
 public:
  GpuExecutable(Machine& machine, ExpandedWeights& expanded, std::span<const Step> table,
                std::span<const Operand> results, const TableUse& use)
      : machine_(machine),
        first_fetched_(use.first_fetched),
        places_(use),
        end_(chain_end(machine, table, results, use)),
        slots_(machine.allocate(places_.bytes() + (end_ ? chain_bytes(*end_, use.rows) : 0))) {
    Recorder recorder{machine,     places_.run(slots_.data()),
                      *use.slots,  use.rows,
                      use.outputs, std::min(use.rows, most_sequences(use)),
                      use.exact,   use.types};
    size_t parts = 0;
    int64_t positions = 0;
    for (int i = 0; i < use.groups * use.slots->sequences; ++i)
      positions = std::max(positions, int64_t{use.slots->tables[i].count} * kPagePositions);
    recorder.positions = std::max(positions, use.rows);
    inputs_.emplace(machine, use.inputs, recorder);
    const std::vector<Step> steps = inputs_->placed(table);
    for (const Step& step : steps)
      parts = std::max(
          parts, part_bytes(step, recorder.most(step.dispatch.out().rows), positions, machine));
    if (parts > 0) {
      recorder.memory.push_back(machine.allocate(parts));
      recorder.parts = recorder.memory.back().data();
    }
    recorder.cores = !use.exact && has_core_products(steps, machine);
    expand_weights(steps, expanded, recorder);
    find_rounded(steps, results, recorder);
    for (const Step& step : steps) {
      const size_t before = recorder.launches.size();
      recorder.row_of(step)->record(step.dispatch, recorder);
      // The launch before has become a part of this row's.
      if (step.op == op::kAttend && recorder.launches.size() == before) --ends_.back();
      ends_.push_back(recorder.launches.size());
    }
    launches_ = recorder.launches;
    Transfers transfers{slots_.data(), places_.bytes(), {}};
    for (const Operand& result : results) {
      const auto most = static_cast<size_t>(recorder.most(result.rows) * result.stride);
      transfers.back.push_back({result.data, most});
    }
    back_ = transfers.back;
    results_.assign(results.begin(), results.end());
    sizes_.resize(results_.size());
    memory_ = std::move(recorder.memory);
    expanded_ = std::move(recorder.expanded);
    // Launches in which the host has no part.
    if (end_ && inputs_->empty()) step_ = recorder.launches;
    rows_ = use.rows;
    outputs_ = use.outputs;
    recording_ = machine.record(std::move(recorder.launches), transfers);
  }

  void run(const Slots& slots) override {
    const bool masked = slots.mask != nullptr && MaskedRun::possible(launches_);
    if (masked && !masked_) make_masked();
    places_.fill(slots, masked ? masked_->input() : recording_->input());
    inputs_->upload(machine_, slots);
    for (size_t i = 0; i < results_.size(); ++i)
      sizes_[i] = i < first_fetched_ ? bytes_of(i, slots) : 0;
    if (masked)
      run_masked(slots);
    else
      recording_->run(sizes_);
    for (size_t i = first_fetched_; i < results_.size(); ++i) sizes_[i] = bytes_of(i, slots);
  }
  void run_profiled(const Slots& slots, std::vector<double>& seconds) override {
    if (!parts_)
      parts_ = machine_.record_parts(launches_, {slots_.data(), places_.bytes(), {}}, ends_);
    places_.fill(slots, parts_->input());
    inputs_->upload(machine_, slots);
    parts_->run({});
    const std::vector<double> of_rows = parts_->seconds();
    seconds.resize(ends_.size(), 0);
    for (size_t i = 0; i < ends_.size(); ++i) seconds[i] += of_rows[i];
  }
  int32_t chain_steps() override {
    if (step_.empty()) return 0;
    if (!chain_) chain_.emplace(machine_, places_, slots_.data(), step_, *end_, rows_);
    return chain_->most();
  }
  bool chain_draws() const override { return !step_.empty() && end_->draws(); }
  void run_chain(const Slots& slots, std::span<const ChainRow> rows) override {
    VEERY_CHECK(chain_steps() > 0);
    chain_->run(slots, rows);
  }
  std::span<const int32_t> chosen(int64_t row) const override { return chain_->chosen(row); }
  void fetch(size_t i) override {
    machine_.download(recording_->output(i), results_[i].data, sizes_[i]);
  }
  const std::byte* result(size_t i) const override { return recording_->output(i); }

 private:
  size_t bytes_of(size_t i, const Slots& slots) const {
    return static_cast<size_t>(slots.count(results_[i].rows) * results_[i].stride);
  }
  void make_masked() {
    back_.resize(std::min(first_fetched_, back_.size()));
    masked_.emplace(machine_, launches_, Transfers{slots_.data(), places_.bytes(), {}}, back_,
                    outputs_);
  }
  void run_masked(const Slots& slots) {
    const std::span<const size_t> sizes = std::span(sizes_).first(back_.size());
    masked_->run(*slots.mask, slots.outputs, sizes);
    // What comes back lies in one place, however it was run.
    for (size_t i = 0; i < sizes.size(); ++i)
      if (recording_->output(i) != masked_->output(i))
        std::memcpy(recording_->output(i), masked_->output(i), sizes[i]);
  }

  Machine& machine_;
  size_t first_fetched_;
  SlotPlaces places_;
  std::optional<ChainEnd> end_;
  Memory slots_;
  std::optional<InputPlaces> inputs_;
  std::vector<Memory> memory_;
  std::map<const std::byte*, std::shared_ptr<const Memory>> expanded_;
  std::vector<Operand> results_;
  std::vector<size_t> sizes_;
  std::unique_ptr<Recording> recording_;
  // One by one, each row of the table up to ends_.
  std::vector<Launch> launches_;
  std::vector<size_t> ends_;
  std::unique_ptr<Recording> parts_;
  // With masks.
  std::vector<Transfers::Back> back_;  // all results
  std::optional<MaskedRun> masked_;
  // Of a table that can be chained.
  int64_t rows_ = 0, outputs_ = 0;
  std::vector<Launch> step_;
  std::optional<Chain> chain_;
};

class GpuBackend : public Backend {
 public:
  explicit GpuBackend(std::unique_ptr<Machine> machine)
      : machine_(std::move(machine)), expanded_(*machine_) {}

  Device& device() override { return *machine_; }
  bool relaxed() const override { return machine_->relaxed(); }
  bool has(Op op) const override { return has_row(op, *machine_); }

  Operand weight(const WeightUse& use) const override {
    const auto format = format_of(use.dtype);
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
    Kernel kernel{.name = row->name, .work = row->work};
    kernel.phases[0] = never;
    return kernel;
  }
  std::unique_ptr<Executable> lower(std::span<const Step> steps, std::span<const Operand> results,
                                    const TableUse& use) override {
    return std::make_unique<GpuExecutable>(*machine_, expanded_, steps, results, use);
  }
  double waited() const override { return machine_->waited(); }
  DeviceLimits limits(std::span<const MemoryPiece> weights) override {
    return measure_limits(*machine_, weights);
  }

 private:
  std::unique_ptr<Machine> machine_;
  ExpandedWeights expanded_;
};

}  // namespace

std::string_view name(KernelId kernel) {
#define VEERY_GPU_NAME(name, arguments, threads, function) #name,
  static constexpr std::string_view kNames[] = {VEERY_GPU_KERNELS(
      VEERY_GPU_NAME) VEERY_GPU_METAL_OWN_KERNELS(VEERY_GPU_NAME) "matrix_product"};
#undef VEERY_GPU_NAME
  return kNames[static_cast<size_t>(kernel)];
}

std::unique_ptr<Recording> Machine::record_parts(std::vector<Launch>, const Transfers&,
                                                 std::span<const size_t>) {
  throw Error(ErrorKind::kUnsupported, "{}: rows of a table cannot be timed one by one there",
              name());
}

std::unique_ptr<Recording> Machine::record_loop(std::vector<Launch>, const Transfers&, uint32_t*) {
  return nullptr;
}

std::unique_ptr<Backend> make_backend(std::unique_ptr<Machine> machine) {
  return std::make_unique<GpuBackend>(std::move(machine));
}

}  // namespace veery::gpu
