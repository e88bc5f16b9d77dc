#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/expanded.h"
#include "kernels/gpu/launches.h"
#include "kernels/gpu/limits.h"
#include "kernels/gpu/make_walk.h"
#include "kernels/gpu/pack.h"

namespace veery::gpu {
namespace {

// Phases of such kernels are launches.
void never(const Dispatch&, const Slots&, const Worker&) {}

int64_t most_sequences(const TableUse& use) {
  return std::max<int64_t>({1, use.sequences, use.slots->sequences});
}

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

// The slots of a run as one block of memory, the same on both sides.
class SlotPlaces {
 public:
  SlotPlaces(const TableUse& use) : use_(use) {  // NOLINT(google-explicit-constructor)
    const auto tables = static_cast<size_t>(use.groups * use.slots->sequences);
    size_t entries = 0;
    for (size_t i = 0; i < tables; ++i) entries += static_cast<size_t>(use.slots->tables[i].count);
    const auto rows = static_cast<size_t>(use.rows);
    const auto take = [&](size_t& place, size_t words) {
      place = words_;
      words_ += (words + 15) / 16 * 16;
    };
    take(counts_, 4);
    take(tokens_, rows);
    take(types_, rows);
    take(positions_, rows);
    take(output_rows_, rows);
    take(span_of_, rows);
    take(spans_, 4 * rows);
    take(tables_, 2 * tables);
    take(pages_, entries);
    take(extended_, static_cast<size_t>(most_sequences(use)));
    take(zeros_, 4);
  }
  size_t bytes() const { return words_ * 4; }

  Run run(std::byte* base) const {
    const auto* at = reinterpret_cast<const int32_t*>(base);
    return {at + counts_,
            at + tokens_,
            at + types_,
            at + positions_,
            at + output_rows_,
            at + span_of_,
            reinterpret_cast<const RunSpan*>(at + spans_),
            at + tables_,
            at + pages_,
            at + extended_};
  }
  AdvanceArguments advance(std::byte* base, const Matrix& best, int32_t* chosen) const {
    auto* at = reinterpret_cast<int32_t*>(base);
    return {run(base),
            at + tokens_,
            at + positions_,
            reinterpret_cast<RunSpan*>(at + spans_),
            reinterpret_cast<uint32_t*>(zeros(base)),
            best,
            chosen};
  }
  /// 16 bytes that are 0 when a run begins.
  std::byte* zeros(std::byte* base) const { return base + 4 * zeros_; }
  void fill(const Slots& slots, std::byte* base) const {
    auto* at = reinterpret_cast<int32_t*>(base);
    const int32_t counts[] = {slots.rows, slots.outputs, slots.span_count, slots.sequences};
    std::copy_n(counts, 4, at + counts_);
    std::copy_n(slots.tokens, slots.rows, at + tokens_);
    if (use_.types != nullptr) std::copy_n(use_.types, slots.rows, at + types_);
    std::copy_n(slots.positions, slots.rows, at + positions_);
    std::copy_n(slots.output_rows, slots.outputs, at + output_rows_);
    std::copy_n(slots.span_of, slots.rows, at + span_of_);
    static_assert(sizeof(Span) == sizeof(RunSpan));
    std::memcpy(at + spans_, slots.spans, sizeof(Span) * static_cast<size_t>(slots.span_count));
    int32_t entry = 0;
    for (int i = 0; i < use_.groups * slots.sequences; ++i) {
      const PageTable& table = slots.tables[i];
      at[tables_ + 2 * static_cast<size_t>(i)] = entry;
      at[tables_ + 2 * static_cast<size_t>(i) + 1] = table.count;
      std::copy_n(table.pages, table.count, at + pages_ + entry);
      entry += table.count;
    }
    for (int i = 0; i < slots.sequences; ++i)
      at[extended_ + static_cast<size_t>(i)] = slots.extended != nullptr && slots.extended[i] != 0;
    std::fill_n(at + zeros_, 4, 0);
  }

 private:
  TableUse use_;
  size_t words_ = 0;
  size_t counts_ = 0, tokens_ = 0, types_ = 0, positions_ = 0, output_rows_ = 0, span_of_ = 0,
         spans_ = 0, tables_ = 0, pages_ = 0, extended_ = 0, zeros_ = 0;
};

class GpuExecutable : public Executable {
 public:
  GpuExecutable(Machine& machine, ExpandedWeights& expanded, std::span<const Step> table,
                std::span<const Operand> results, const TableUse& use)
      : machine_(machine),
        first_fetched_(use.first_fetched),
        places_(use),
        slots_(machine.allocate(places_.bytes())) {
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
    expand_weights(steps, expanded, recorder);
    find_rounded(steps, results, recorder);
    for (const Step& step : steps) {
      recorder.row_of(step)->record(step.dispatch, recorder);
      ends_.push_back(recorder.launches.size());
    }
    launches_ = recorder.launches;
    if (use.rows == 1 && machine.cooperative()) walk(machine, recorder);
    Transfers transfers{slots_.data(), places_.bytes(), {}};
    for (const Operand& result : results) {
      const auto most = static_cast<size_t>(recorder.most(result.rows) * result.stride);
      transfers.back.push_back({result.data, most});
    }
    results_.assign(results.begin(), results.end());
    sizes_.resize(results_.size());
    memory_ = std::move(recorder.memory);
    expanded_ = std::move(recorder.expanded);
    before_ = std::move(recorder.before);
    if (can_chain(use)) step_ = recorder.launches;
    rows_ = use.rows;
    recording_ = machine.record(std::move(recorder.launches), transfers);
  }

  void run(const Slots& slots) override {
    places_.fill(slots, recording_->input());
    for (const auto& prepare : before_) prepare(slots);
    inputs_->upload(machine_, slots);
    for (size_t i = 0; i < results_.size(); ++i)
      sizes_[i] = i < first_fetched_ ? bytes_of(i, slots) : 0;
    recording_->run(sizes_);
    for (size_t i = first_fetched_; i < results_.size(); ++i) sizes_[i] = bytes_of(i, slots);
  }
  void run_profiled(const Slots& slots, std::vector<double>& seconds) override {
    if (!parts_)
      parts_ = machine_.record_parts(launches_, {slots_.data(), places_.bytes(), {}}, ends_);
    places_.fill(slots, parts_->input());
    for (const auto& prepare : before_) prepare(slots);
    inputs_->upload(machine_, slots);
    parts_->run({});
    const std::vector<double> of_rows = parts_->seconds();
    seconds.resize(ends_.size(), 0);
    for (size_t i = 0; i < ends_.size(); ++i) seconds[i] += of_rows[i];
  }
  int chain_steps() const override { return step_.empty() ? 0 : kChainSteps; }
  std::span<const int32_t> run_chain(const Slots& slots) override {
    VEERY_CHECK(!step_.empty());
    if (!chain_) record_chain();
    places_.fill(slots, chain_->input());
    const auto rows = static_cast<size_t>(slots.rows);
    const size_t bytes = static_cast<size_t>(kChainSteps * rows_) * sizeof(int32_t);
    chain_->run({&bytes, 1});
    const auto* made = reinterpret_cast<const int32_t*>(chain_->output(0));
    chosen_.clear();
    for (int step = 0; step < kChainSteps; ++step, made += rows_)
      chosen_.insert(chosen_.end(), made, made + rows);
    return chosen_;
  }
  void fetch(size_t i) override {
    machine_.download(recording_->output(i), results_[i].data, sizes_[i]);
  }
  const std::byte* result(size_t i) const override { return recording_->output(i); }

 private:
  static constexpr int kChainSteps = 8;

  // Few rows, of which one number is wanted, in whose launches the host has no part.
  bool can_chain(const TableUse& use) const {
    return before_.empty() && inputs_->empty() && results_.size() == 1 &&
           results_[0].dtype == DType::kI32 && results_[0].cols == 1 &&
           results_[0].rows == kOutputRows && use.rows == use.outputs &&
           machine_.has(KernelId::advance);
  }
  // The steps are recorded as one, with a launch behind each that makes its slots the next one's.
  void record_chain() {
    const size_t each = static_cast<size_t>(rows_) * sizeof(int32_t);
    Memory& made = memory_.emplace_back(machine_.allocate(kChainSteps * each));
    const Matrix best{reinterpret_cast<float*>(results_[0].data), results_[0].stride / 4,
                      results_[0].rows, results_[0].cols};
    std::vector<Launch> launches;
    for (int step = 0; step < kChainSteps; ++step) {
      launches.insert(launches.end(), step_.begin(), step_.end());
      auto* chosen = reinterpret_cast<int32_t*>(made.data()) + step * rows_;
      launches.push_back(Launch::of(KernelId::advance, {.threads = 64},
                                    places_.advance(slots_.data(), best, chosen)));
    }
    chain_ = machine_.record(std::move(launches),
                             {slots_.data(), places_.bytes(), {{made.data(), kChainSteps * each}}});
  }
  size_t bytes_of(size_t i, const Slots& slots) const {
    return static_cast<size_t>(slots.count(results_[i].rows) * results_[i].stride);
  }
  // One kernel in place of all launches, where it can do what they do.
  void walk(Machine& machine, Recorder& recorder) const {
    std::byte* zeros = places_.zeros(slots_.data());
    const auto rows =
        make_walk(recorder.launches, machine.processors(), reinterpret_cast<uint64_t*>(zeros + 8));
    if (!rows) return;
    Memory& table = recorder.memory.emplace_back(machine.allocate(rows->size() * sizeof(WalkRow)));
    machine.upload(table.data(), rows->data(), table.size());
    recorder.launches.clear();
    recorder.add(
        KernelId::walk, walk_size(machine.processors()),
        WalkArguments{reinterpret_cast<const WalkRow*>(table.data()),
                      static_cast<int32_t>(rows->size()), reinterpret_cast<uint32_t*>(zeros)});
  }

  Machine& machine_;
  size_t first_fetched_;
  SlotPlaces places_;
  Memory slots_;
  std::optional<InputPlaces> inputs_;
  std::vector<Memory> memory_;
  std::map<const std::byte*, std::shared_ptr<const Memory>> expanded_;
  std::vector<std::function<void(const Slots&)>> before_;
  std::vector<Operand> results_;
  std::vector<size_t> sizes_;
  std::unique_ptr<Recording> recording_;
  // One by one, each row of the table up to ends_.
  std::vector<Launch> launches_;
  std::vector<size_t> ends_;
  std::unique_ptr<Recording> parts_;
  // Of a table that can be chained.
  int64_t rows_ = 0;
  std::vector<Launch> step_;
  std::unique_ptr<Recording> chain_;
  std::vector<int32_t> chosen_;
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
                  machine_->name(), operands, choice.exact ? " with --exact" : "");
    }
    Kernel kernel{.name = row->name, .work = row->work};
    kernel.phases[0] = never;
    return kernel;
  }
  std::unique_ptr<Executable> lower(std::span<const Step> steps, std::span<const Operand> results,
                                    const TableUse& use) override {
    return std::make_unique<GpuExecutable>(*machine_, expanded_, steps, results, use);
  }
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

std::unique_ptr<Backend> make_backend(std::unique_ptr<Machine> machine) {
  return std::make_unique<GpuBackend>(std::move(machine));
}

}  // namespace veery::gpu
