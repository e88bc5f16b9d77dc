#include "kernels/metal/machine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"

namespace veery::metal {
namespace {

using gpu::KernelId;
using gpu::Launch;
using gpu::Transfers;

constexpr size_t kArguments = 768;  // bytes reserved for the arguments of a launch
static_assert(Launch::kMaxParamBytes <= kArguments);
constexpr size_t kMostCommands = 16384;  // maximum of an indirect command buffer

class MetalMachine;

// One indirect command buffer. Inputs and outputs are in shared memory, so nothing is copied. With
// `ends`, its parts are run and timed one after the other.
class MetalRecording : public gpu::Recording {
 public:
  MetalRecording(MetalMachine& machine, const std::vector<Launch>& launches,
                 const Transfers& transfers, std::span<const size_t> ends = {});
  MetalRecording(const MetalRecording&) = delete;
  MetalRecording& operator=(const MetalRecording&) = delete;
  ~MetalRecording() override;

  std::byte* input() override { return input_; }
  std::byte* output(size_t i) override { return outputs_[i]; }
  void run(std::span<const size_t>) override;
  std::vector<double> seconds() const override { return seconds_; }

 private:
  MetalMachine& machine_;
  Memory arguments_;
  std::byte* input_ = nullptr;
  std::vector<std::byte*> outputs_;
  std::vector<size_t> ends_;
  std::vector<double> seconds_;  // of each part
  void* encoded_ = nullptr;
};

class MetalMachine : public gpu::Machine {
 public:
  MetalMachine(std::unique_ptr<Driver> driver, std::string_view source, size_t measured)
      : driver_(std::move(driver)), limits_(driver_->limits()) {
    driver_->load(source);
    profile_ = measure(measured);
  }
  MetalMachine(const MetalMachine&) = delete;
  MetalMachine& operator=(const MetalMachine&) = delete;
  ~MetalMachine() override = default;

  std::string description() const override {
    return fmt::format("{} (metal, {:.1f} GiB, {:.0f} GB/s)", limits_.name,
                       static_cast<double>(limits_.memory) / (1 << 30), profile_.bandwidth / 1e9);
  }
  std::string_view name() const override { return "metal"; }
  int sm_count() const override { return profile_.sm_count; }
  int max_shared() const override { return static_cast<int>(limits_.block_memory); }
  bool stages_rows() const override { return false; }
  size_t max_launches() const override { return kMostCommands; }
  using Machine::has;
  bool has(KernelId kernel) const override {
    const gpu::KernelSet set = gpu::kernel_info(kernel).set;
    return set == gpu::KernelSet::kShared || set == gpu::KernelSet::kMetal;
  }

  Memory allocate(size_t size) override {
    const size_t bytes = std::max<size_t>(size, 256);
    const std::lock_guard lock(mutex_);
    std::optional<Buffer> buffer;
    if (bytes <= limits_.buffer && bytes <= limits_.memory - std::min(limits_.memory, used()))
      buffer = driver_->allocate(bytes);
    if (!buffer)
      throw Error(
          ErrorKind::kLimit,
          "metal: cannot allocate {} bytes: {} of {} bytes are free, the largest buffer has "
          "{} bytes",
          bytes, limits_.memory - std::min(limits_.memory, used()), limits_.memory, limits_.buffer);
    buffers_.emplace(buffer->address, *buffer);
    return Memory(reinterpret_cast<std::byte*>(buffer->address), size, *this);
  }
  void release(std::byte* data) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = buffers_.find(reinterpret_cast<uint64_t>(data));
    if (at == buffers_.end()) return;
    driver_->release(at->second);
    buffers_.erase(at);
  }
  std::byte* host(std::byte* data) const override { return find(data, 0); }
  void upload(std::byte* to, const void* host, size_t size) override {
    if (size > 0) std::memcpy(find(to, size), host, size);
  }
  void download(void* host, const std::byte* from, size_t size) override {
    // Results may be read in place.
    if (size > 0 && host != find(from, size)) std::memcpy(host, find(from, size), size);
  }
  void copy(std::byte* to, const std::byte* from, size_t size) override {
    if (size > 0) std::memmove(find(to, size), find(from, size), size);
  }
  std::unique_ptr<gpu::Recording> record(std::vector<Launch> launches,
                                         const Transfers& transfers) override {
    return std::make_unique<MetalRecording>(*this, launches, transfers);
  }
  std::unique_ptr<gpu::Recording> record_parts(std::vector<Launch> launches,
                                               const Transfers& transfers,
                                               std::span<const size_t> ends) override {
    return std::make_unique<MetalRecording>(*this, launches, transfers, ends);
  }

  Driver& driver() const { return *driver_; }
  Buffer buffer_at(const std::byte* data) const {
    const std::lock_guard lock(mutex_);
    return buffers_.at(reinterpret_cast<uint64_t>(data));
  }
  Command command_of(const Launch& launch, size_t offset) {
    Command command{pipeline_of(launch.kernel), offset, launch.bytes, launch.size, offset > 0};
    gpu::LaunchSize& size = command.size;
    size.shared = std::max<size_t>((size.shared + 15) / 16 * 16, 16);
    if (size.threads > command.pipeline.most_threads || size.shared > limits_.block_memory)
      throw Error(ErrorKind::kUnsupported,
                  "metal: {} needs {} threads and {} bytes per threadgroup, {} has {} and {}",
                  gpu::name(launch.kernel), size.threads, size.shared, limits_.name,
                  command.pipeline.most_threads, limits_.block_memory);
    return command;
  }

 private:
  size_t used() const { return driver_->used(); }
  // Returns the host address of `size` bytes of GPU memory.
  std::byte* find(const std::byte* data, size_t size) const {
    const auto address = reinterpret_cast<uint64_t>(data);
    const std::lock_guard lock(mutex_);
    auto next = buffers_.upper_bound(address);
    VEERY_CHECK(next != buffers_.begin());
    const Buffer& buffer = (--next)->second;
    VEERY_CHECK(address - buffer.address + size <= buffer.size);
    return buffer.host + (address - buffer.address);
  }
  // Pipelines are created on first use, because compilation for the chip is slow.
  Pipeline pipeline_of(KernelId kernel) {
    const auto known = pipelines_.find(kernel);
    if (known != pipelines_.end()) return known->second;
    const Pipeline made = driver_->pipeline(fmt::format("veery_{}", gpu::name(kernel)));
    if (made.width != gpu::kWarp)
      throw Error(ErrorKind::kUnsupported, "metal: {} has simdgroups of {} threads, expected {}",
                  limits_.name, made.width, gpu::kWarp);
    return pipelines_.emplace(kernel, made).first->second;
  }

  // Measures the memory bandwidth of a scaling kernel: with one thread block, and with one per row.
  Profile measure(size_t bytes) {
    constexpr int kColumns = 4096, kTimes = 3;
    const auto rows = std::max<int64_t>(2, static_cast<int64_t>(bytes / sizeof(float) / kColumns));
    const Memory from = allocate(static_cast<size_t>(rows) * kColumns * sizeof(float));
    const Memory to = allocate(from.size());
    const auto bandwidth = [&](int64_t count) {
      gpu::ElementwiseParams a{{}, gpu::Elementwise::kScale};
      a.a = {reinterpret_cast<float*>(from.data()), kColumns, count, kColumns};
      a.out = a.a;
      a.out.data = reinterpret_cast<float*>(to.data());
      a.factor = 1;
      const gpu::LaunchSize size{.blocks_y = static_cast<int>(count), .threads = 256, .shared = 0};
      MetalRecording recording(*this, {Launch::of(KernelId::elementwise, size, a)}, {});
      double least = INFINITY;
      for (int i = 0; i < kTimes; ++i) {
        recording.run({});
        least = std::min(least, recording.seconds()[0]);
      }
      return 2.0 * static_cast<double>(count) * kColumns * sizeof(float) / std::max(least, 1e-9);
    };
    Profile profile{bandwidth(rows), bandwidth(1)};
    profile.sm_count = static_cast<int>(
        std::clamp(std::round(profile.bandwidth / profile.one_block), 1.0, 1024.0));
    return profile;
  }

  std::unique_ptr<Driver> driver_;
  Limits limits_;
  Profile profile_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Buffer> buffers_;  // by GPU address
  std::map<KernelId, Pipeline> pipelines_;
};

MetalRecording::MetalRecording(MetalMachine& machine, const std::vector<Launch>& launches,
                               const Transfers& transfers, std::span<const size_t> ends)
    : machine_(machine),
      arguments_(machine.allocate(kArguments * launches.size())),
      ends_(ends.begin(), ends.end()) {
  if (ends_.empty()) ends_.push_back(launches.size());
  if (launches.size() > kMostCommands)
    throw Error(ErrorKind::kUnsupported,
                "metal: the plan has {} launches, expected at most {} (indirect command buffer)",
                launches.size(), kMostCommands);
  std::vector<Command> commands;
  std::byte* to = machine.host(arguments_.data());
  for (const Launch& launch : launches) {
    const size_t offset = kArguments * commands.size();
    std::memcpy(to + offset, launch.params.data(), launch.bytes);
    commands.push_back(machine.command_of(launch, offset));
  }
  if (transfers.to != nullptr) input_ = machine.host(transfers.to);
  for (const Transfers::Back& back : transfers.back)
    outputs_.push_back(machine.host(const_cast<std::byte*>(back.from)));  // NOLINT
  encoded_ = machine.driver().encode(commands, machine.buffer_at(arguments_.data()));
}
MetalRecording::~MetalRecording() { machine_.driver().drop(encoded_); }
void MetalRecording::run(std::span<const size_t>) {
  seconds_.clear();
  size_t first = 0;
  for (const size_t end : ends_) {
    seconds_.push_back(end > first ? machine_.driver().run(encoded_, first, end) : 0);
    first = end;
  }
}

}  // namespace

std::unique_ptr<gpu::Machine> make_machine(std::unique_ptr<Driver> driver, std::string_view source,
                                           size_t measured) {
  return std::make_unique<MetalMachine>(std::move(driver), source, measured);
}

}  // namespace veery::metal
