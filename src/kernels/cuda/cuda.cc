#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/machine.h"
#include "kernels/cuda/products.h"
#include "kernels/find_backend.h"

namespace veery::cuda {
namespace {

using gpu::KernelId;
using gpu::Launch;
using gpu::Transfers;

Pointer address(const std::byte* at) { return reinterpret_cast<Pointer>(at); }

// Page-locked host memory, for asynchronous copies without a staging buffer.
class PinnedMemory {
 public:
  PinnedMemory(const Driver& driver, size_t size) : driver_(driver) {
    driver.check(driver.host_allocate(&data_, std::max<size_t>(size, 1), 0),
                 "allocating page-locked host memory");
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { driver_.host_free(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const Driver& driver_;
  void* data_ = nullptr;
};

// A timestamp on the GPU's clock (an event).
class TimeStamp {
 public:
  explicit TimeStamp(const Driver& driver) : driver_(driver) {
    driver.check(driver.event_create(&event_, 0), "creating an event");
  }
  TimeStamp(const TimeStamp&) = delete;
  TimeStamp& operator=(const TimeStamp&) = delete;
  ~TimeStamp() { driver_.event_destroy(event_); }

  void record(Stream stream) const {
    driver_.check(driver_.event_record(event_, stream, kExternal), "recording an event");
  }
  double seconds_since(const TimeStamp& earlier) const {
    float milliseconds = 0;
    driver_.check(driver_.event_milliseconds(&milliseconds, earlier.event_, event_),
                  "measuring the time between events");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  const Driver& driver_;
  Event event_ = nullptr;
};

class CudaMachine;

// A CUDA graph of the upload and all kernel launches, in order. With `ends`, it also records a
// timestamp before the first launch and after each part.
class CudaRecording : public gpu::Recording {
 public:
  CudaRecording(CudaMachine& machine, const std::vector<Launch>& launches,
                const Transfers& transfers, std::span<const size_t> ends = {},
                uint32_t* again = nullptr);
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  ~CudaRecording() override;

  std::byte* input() override { return input_.data(); }
  std::byte* output(size_t i) override { return outputs_[i]->data(); }
  void run(std::span<const size_t> bytes) override;
  void start() override;
  std::vector<double> seconds() const override {
    std::vector<double> seconds;
    for (size_t i = 1; i < stamps_.size(); ++i)
      seconds.push_back(stamps_[i]->seconds_since(*stamps_[i - 1]));
    return seconds;
  }

 private:
  void capture(const std::vector<Launch>& launches, std::span<const size_t> ends);
  void put(const std::vector<Launch>& launches, std::span<const size_t> ends);
  template <typename Put>
  void capture_into(Graph graph, const GraphNode* after, const Put& put);
  void capture_loop(const std::vector<Launch>& launches, uint32_t* again);
  void make_loop(Graph graph, std::vector<Launch> launches, uint32_t* again);
  void put_upload();
  void put_downloads(std::span<const size_t> bytes);
  void instantiate(Graph graph);

  CudaMachine& machine_;
  const Driver& driver_;
  Transfers transfers_;
  PinnedMemory input_;
  std::vector<std::unique_ptr<PinnedMemory>> outputs_;
  std::vector<std::unique_ptr<TimeStamp>> stamps_;
  bool graph_downloads_ = false;  // the graph includes the downloads
  GraphExec graph_ = nullptr;
};

class CudaMachine : public gpu::Machine {
 public:
  CudaMachine(const Driver& driver, std::span<const std::byte> image, int index,
              const CublasLt* library)
      : driver_(driver), index_(index), name_(fmt::format("cuda:{}", index)), pool_(source()) {
    driver.check(driver.device_get(&device_, index), "finding the GPU");
    int major = 0;
    driver.check(driver.device_attribute(&major, kMajor, device_),
                 "querying the GPU's compute capability");
    driver.check(driver.device_attribute(&sm_count_, kMultiprocessors, device_),
                 "querying the GPU's number of SMs");
    if (major < 8)
      throw Error(ErrorKind::kUnsupported,
                  "cuda:{}: {} has compute capability {}.x, expected 8.0 or more", index, title(),
                  major);
    early_launch_ = major >= 9;
    driver.check(driver.device_attribute(&max_shared_, kMaxSharedOptin, device_),
                 "querying the GPU's shared memory");
    driver.check(driver.context_retain(&context_, device_), "opening the GPU");
    make_current();
    try {
      load(image);
      if (library != nullptr) products_.emplace(*library, *this);
    } catch (...) {
      close();
      throw;
    }
  }
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;
  ~CudaMachine() override { close(); }

  std::string description() const override {
    size_t unused = 0, all = 0;
    make_current();
    driver_.memory_info(&unused, &all);
    return fmt::format("{} (cuda:{}, {:.1f} GiB{})", title(), index_,
                       static_cast<double>(all) / (1 << 30), relaxed() ? ", relaxed" : "");
  }
  std::string_view name() const override { return "cuda"; }
  int sm_count() const override { return sm_count_; }
  int max_shared() const override { return max_shared_; }
  using Machine::has;
  bool has(KernelId kernel) const override {
    return Machine::has(kernel) && functions_[static_cast<size_t>(kernel)] != nullptr;
  }
  bool relaxed() const override { return products_.has_value(); }

  Memory allocate(size_t size) override {
    make_current();
    Memory memory(pool_.allocate(size), size, *this);
    if (size > 0)
      driver_.check(driver_.memory_set(address(memory.data()), 0, size), "clearing memory");
    return memory;
  }
  void release(std::byte* data) noexcept override {
    driver_.context_set(context_);
    pool_.release(data);
  }
  MemoryPool* pool() override { return &pool_; }
  void upload(std::byte* to, const void* host, size_t size) override {
    if (size == 0) return;
    make_current();
    driver_.check(driver_.upload(address(to), host, size), "copying to the GPU");
    wait_for_copy();
  }
  void download(void* host, const std::byte* from, size_t size) override {
    if (size == 0) return;
    make_current();
    driver_.check(driver_.download(host, address(from), size), "copying from the GPU");
  }
  void copy(std::byte* to, const std::byte* from, size_t size) override {
    make_current();
    driver_.check(driver_.copy(address(to), address(from), size), "copying on the GPU");
    wait_for_copy();
  }
  std::unique_ptr<gpu::Recording> record(std::vector<Launch> launches,
                                         const Transfers& transfers) override {
    make_current();
    const std::lock_guard lock(recording_);
    driver_.check(driver_.context_wait(), "waiting for earlier work");
    return std::make_unique<CudaRecording>(*this, launches, transfers);
  }
  std::unique_ptr<gpu::Recording> record_loop(std::vector<Launch> launches,
                                              const Transfers& transfers,
                                              uint32_t* again) override {
    if (!driver_.has_loops()) return nullptr;
    make_current();
    const std::lock_guard lock(recording_);
    driver_.check(driver_.context_wait(), "waiting for earlier work");
    return std::make_unique<CudaRecording>(*this, launches, transfers, std::span<const size_t>{},
                                           again);
  }
  std::unique_ptr<gpu::Recording> record_parts(std::vector<Launch> launches,
                                               const Transfers& transfers,
                                               std::span<const size_t> ends) override {
    make_current();
    const std::lock_guard lock(recording_);
    driver_.check(driver_.context_wait(), "waiting for earlier work");
    return std::make_unique<CudaRecording>(*this, launches, transfers, ends);
  }

  void use_in_this_thread() override { make_current(); }
  void enqueue(KernelId kernel, const gpu::LaunchSize& size,
               std::span<const std::byte> params) override {
    make_current();
    launch(kernel, size, params.data(), false);
  }
  void enqueue_product(const gpu::MatrixProduct& product) override {
    make_current();
    products_->multiply(product, stream_);
  }
  void enqueue_upload(std::byte* to, const void* host, size_t size) override {
    if (size == 0) return;
    make_current();
    driver_.check(driver_.upload_async(address(to), host, size, stream_), "copying to the GPU");
  }
  void wait_for_queue() override {
    make_current();
    driver_.check(driver_.stream_wait(stream_), "computing on tensors");
  }

  // Waits until the stream is empty.
  void wait() {
    const double start = seconds_now();
    driver_.check(driver_.stream_wait(stream_), "executing a run");
    waited_ += seconds_now() - start;
  }
  double waited() const override { return waited_; }
  const Driver& driver() const { return driver_; }
  Stream stream() const { return stream_; }
  Context context() const { return context_; }
  void make_current() const {
    driver_.check(driver_.context_set(context_), "making the GPU's context current");
  }

  // Must be called before launches are captured (Products::warm()).
  void warm(const std::vector<Launch>& launches) {
    if (!products_) return;
    products_->warm(launches, stream_);
    driver_.check(driver_.stream_wait(stream_), "executing matrix products");
  }
  // Enqueues a kernel launch. If `early`, it uses programmatic dependent launch: it may begin
  // before the previous launch ends (wait_for_dependencies() in compat.h).
  void launch(const Launch& launch, bool early) {
    if (launch.kernel == KernelId::kMatrixProduct)
      return products_->multiply(launch.as<gpu::MatrixProduct>(), stream_);
    this->launch(launch.kernel, launch.size, launch.params.data(), early);
  }
  void launch(KernelId kernel, const gpu::LaunchSize& size, const std::byte* params, bool early) {
    LaunchAttribute how[2] = {};
    unsigned count = 0;
    if (early && early_launch_) {
      how[count].id = kProgrammaticOrder;
      how[count++].value.allowed = 1;
    }
    if (size.cluster > 1) {
      how[count].id = kClusterBlocks;
      auto& blocks = how[count++].value.blocks;
      blocks[0] = blocks[2] = 1, blocks[1] = static_cast<unsigned>(size.cluster);
    }
    const auto number = [](int n) { return static_cast<unsigned>(n); };
    const LaunchConfig config{number(size.blocks_x),
                              number(size.blocks_y),
                              number(size.blocks_z),
                              number(size.threads),
                              1,
                              1,
                              static_cast<unsigned>(size.shared),
                              stream_,
                              how,
                              count};
    // The driver does not modify the parameters.
    void* arguments = const_cast<std::byte*>(params);  // NOLINT
    const Function function = functions_[static_cast<size_t>(kernel)];
    if (driver_.launch(&config, function, &arguments, nullptr) != 0)
      throw Error(ErrorKind::kIo,
                  "cuda: cannot launch kernel {}: {} x {} x {} blocks of {} threads, {} bytes of "
                  "shared memory",
                  gpu::name(kernel), config.grid_x, config.grid_y, config.grid_z, config.block_x,
                  config.shared);
  }

 private:
  void wait_for_copy() {
    const std::lock_guard lock(recording_);
    driver_.check(driver_.context_wait(), "copying on the GPU");
  }
  std::string title() const {
    char name[128] = {};
    driver_.device_name(name, sizeof name - 1, device_);
    return name;
  }
  MemorySource source() {
    return {.allocate =
                [this](size_t size) {
                  Pointer at = 0;
                  const bool done = driver_.memory_allocate(&at, size) == 0;
                  return done ? reinterpret_cast<std::byte*>(at) : nullptr;
                },
            .release = [this](std::byte* data) { driver_.memory_free(address(data)); },
            .free_bytes =
                [this] {
                  size_t left = 0, all = 0;
                  driver_.memory_info(&left, &all);
                  return left;
                },
            .name = name_};
  }
  void load(std::span<const std::byte> image) {
    driver_.check(driver_.stream_create(&stream_, kNonBlocking), "creating a stream");
    driver_.check(driver_.module_load(&module_, image.data()), "loading the kernels");
    for (const gpu::KernelInfo& info : gpu::kKernels) {
      functions_.push_back(nullptr);
      if (info.set == gpu::KernelSet::kMetal) continue;
      const std::string symbol = fmt::format("veery_{}", info.name);
      Function function = nullptr;
      const Result found = driver_.module_function(&function, module_, symbol.c_str());
      if (found == kNotFound && info.set == gpu::KernelSet::kWgmma) continue;
      driver_.check(found, symbol.c_str());
      driver_.check(driver_.function_set(function, kMaxShared, max_shared_), symbol.c_str());
      functions_.back() = function;
    }
  }
  void close() noexcept {
    driver_.context_set(context_);
    products_.reset();
    pool_.clear_cache();
    if (module_ != nullptr) driver_.module_unload(module_);
    if (stream_ != nullptr) driver_.stream_destroy(stream_);
    driver_.context_release(device_);
  }

  const Driver& driver_;
  std::mutex recording_;  // while a stream is captured, nobody may wait for the context
  int index_, device_ = 0, sm_count_ = 0, max_shared_ = 0;
  std::string name_;
  MemoryPool pool_;
  bool early_launch_ = false;
  double waited_ = 0;
  Context context_ = nullptr;
  Module module_ = nullptr;
  Stream stream_ = nullptr;
  std::vector<Function> functions_;
  std::optional<Products> products_;
};

CudaRecording::CudaRecording(CudaMachine& machine, const std::vector<Launch>& launches,
                             const Transfers& transfers, std::span<const size_t> ends,
                             uint32_t* again)
    : machine_(machine),
      driver_(machine.driver()),
      transfers_(transfers),
      input_(machine.driver(), transfers.bytes) {
  for (const Transfers::Back& back : transfers_.back)
    outputs_.push_back(std::make_unique<PinnedMemory>(driver_, back.bytes));
  for (size_t i = 0; !ends.empty() && i <= ends.size(); ++i)
    stamps_.push_back(std::make_unique<TimeStamp>(driver_));
  machine.warm(launches);
  if (again == nullptr)
    capture(launches, ends);
  else
    capture_loop(launches, again);
}

void CudaRecording::put_upload() {
  if (transfers_.bytes > 0)
    driver_.check(driver_.upload_async(address(transfers_.to), input_.data(), transfers_.bytes,
                                       machine_.stream()),
                  "recording a copy");
}

void CudaRecording::put_downloads(std::span<const size_t> bytes) {
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (bytes[i] > 0)
      driver_.check(driver_.download_async(outputs_[i]->data(), address(transfers_.back[i].from),
                                           bytes[i], machine_.stream()),
                    "copying from the GPU");
}

void CudaRecording::put(const std::vector<Launch>& launches, std::span<const size_t> ends) {
  const Stream stream = machine_.stream();
  size_t part = 0;
  if (!ends.empty()) stamps_[0]->record(stream);
  for (size_t i = 0; i <= launches.size(); ++i) {
    const bool begins = part < ends.size() && ends[part] == i;
    for (; part < ends.size() && ends[part] == i; ++part) stamps_[part + 1]->record(stream);
    if (i < launches.size()) machine_.launch(launches[i], i > 0 && !begins);
  }
}

void CudaRecording::capture(const std::vector<Launch>& launches, std::span<const size_t> ends) {
  const Stream stream = machine_.stream();
  driver_.check(driver_.capture_begin(stream, kCaptureThreadLocal), "recording a run");
  Graph graph = nullptr;
  try {
    put_upload();
    put(launches, ends);
  } catch (...) {
    driver_.capture_end(stream, &graph);
    if (graph != nullptr) driver_.graph_destroy(graph);
    throw;
  }
  driver_.check(driver_.capture_end(stream, &graph), "recording a run");
  instantiate(graph);
}

void CudaRecording::instantiate(Graph graph) {
  const Result made = driver_.graph_instantiate(&graph_, graph, 0);
  driver_.graph_destroy(graph);
  driver_.check(made, "instantiating a graph");
}

// Captures the work that `put` enqueues as nodes of `graph` that depend on node `after` (if any).
template <typename Put>
void CudaRecording::capture_into(Graph graph, const GraphNode* after, const Put& put) {
  const Stream stream = machine_.stream();
  driver_.check(driver_.capture_into(stream, graph, after, nullptr, after != nullptr ? 1 : 0,
                                     kCaptureThreadLocal),
                "recording a loop");
  Graph same = nullptr;
  try {
    put();
  } catch (...) {
    driver_.capture_end(stream, &same);
    throw;
  }
  driver_.check(driver_.capture_end(stream, &same), "recording a loop");
}

// Builds a graph of upload, loop (a conditional node) and downloads, so that a run is one
// submission.
void CudaRecording::make_loop(Graph graph, std::vector<Launch> launches, uint32_t* again) {
  capture_into(graph, nullptr, [&] { put_upload(); });
  GraphNode upload = nullptr, loop = nullptr;
  size_t count = 1;
  driver_.check(driver_.graph_nodes(graph, &upload, &count), "querying a graph's nodes");
  VEERY_CHECK(count == 1);
  Condition condition = 0;
  driver_.check(driver_.condition_create(&condition, graph, machine_.context(), 1, kAssignDefault),
                "creating a condition");
  NodeParameters node{};
  node.kind = kConditionalNode;
  node.conditional = {condition, kWhile, 1, nullptr, machine_.context()};
  driver_.check(driver_.node_add(&loop, graph, &upload, nullptr, 1, &node), "adding a loop node");
  launches.push_back(
      Launch::of(KernelId::chain_loop, {.threads = 32}, gpu::ChainLoopParams{condition, again}));
  capture_into(*node.conditional.bodies, nullptr, [&] { put(launches, {}); });
  std::vector<size_t> bytes;
  for (const Transfers::Back& back : transfers_.back) bytes.push_back(back.bytes);
  capture_into(graph, &loop, [&] { put_downloads(bytes); });
  graph_downloads_ = true;
}

void CudaRecording::capture_loop(const std::vector<Launch>& launches, uint32_t* again) {
  Graph graph = nullptr;
  driver_.check(driver_.graph_create(&graph, 0), "creating a graph");
  try {
    make_loop(graph, launches, again);
  } catch (...) {
    driver_.graph_destroy(graph);
    throw;
  }
  instantiate(graph);
}

CudaRecording::~CudaRecording() {
  driver_.stream_wait(machine_.stream());
  if (graph_ != nullptr) driver_.exec_destroy(graph_);
}

void CudaRecording::start() {
  machine_.make_current();
  driver_.check(driver_.graph_launch(graph_, machine_.stream()), "launching a graph");
}

void CudaRecording::run(std::span<const size_t> bytes) {
  start();
  if (!graph_downloads_) put_downloads(bytes);
  machine_.wait();
}

}  // namespace

std::unique_ptr<gpu::Machine> make_machine(const Driver& driver, std::span<const std::byte> image,
                                           int index, const CublasLt* library) {
  return std::make_unique<CudaMachine>(driver, image, index, library);
}

}  // namespace veery::cuda

namespace veery {

std::string cuda_refusal() {
  std::string why;
  if (cuda::kernel_image().empty())
    return "this build has no kernels for NVIDIA GPUs (CMake option VEERY_CUDA)";
  cuda::find_driver(why);
  return why;
}

std::shared_ptr<Backend> make_cuda_backend(int index, bool relaxed) {
  if (const std::string why = cuda_refusal(); !why.empty())
    throw Error(ErrorKind::kUnsupported, "device cuda: {}", why);
  std::string why;
  const cuda::Driver& driver = *cuda::find_driver(why);
  int count = 0;
  driver.check(driver.device_count(&count), "counting GPUs");
  if (index < 0 || index >= count)
    throw Error(ErrorKind::kInput, "device cuda:{}: found {} GPUs, expected an index below {}",
                index, count, count);
  const cuda::CublasLt* library = relaxed ? cuda::find_cublas_lt(why) : nullptr;
  if (relaxed && library == nullptr)
    throw Error(ErrorKind::kUnsupported, "relaxed products: {}", why);
  return gpu::make_backend(cuda::make_machine(driver, cuda::kernel_image(), index, library));
}

}  // namespace veery
