#include "tensor/devices.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

#include "kernels/find_backend.h"
#include "tensor/element_group.h"
#include "tensor/elementwise.h"
#include "tensor/runtime.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

/// The devices that have been opened; the first is the CPU.
struct Table {
  std::mutex mutex;
  std::deque<DeviceState> devices;
  std::atomic<DeviceState*> made_by_default = nullptr;
};
Table& table() {
  static Table* own = [] {
    auto* made = new Table;
    made->devices.emplace_back().name = "cpu";
    made->made_by_default = &made->devices.front();
    return made;
  }();
  return *own;
}

thread_local DeviceState* current = nullptr;

// N of "cuda:N", or of "cuda".
std::optional<int> gpu_index(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:") || name.size() < 6 || name.size() > 7) return {};
  int index = 0;
  for (const char c : name.substr(5)) {
    if (c < '0' || c > '9') return {};
    index = index * 10 + (c - '0');
  }
  return index;
}

// A GPU, with a library for products of bf16 if there is one.
std::shared_ptr<Backend> open_gpu(int index) {
  try {
    return make_cuda_backend(index, true);
  } catch (const veery::Error& error) {
    if (error.kind() != veery::ErrorKind::kUnsupported) throw;
    return make_cuda_backend(index);
  }
}

DeviceState* find(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  for (DeviceState& device : table().devices)
    if (device.name == name) return &device;
  return nullptr;
}

DeviceState& open(std::string_view name) {
  const std::optional<int> index = gpu_index(name);
  const std::string own = index ? fmt::format("cuda:{}", *index) : std::string(name);
  if (DeviceState* device = find(own)) return *device;
  if (!index) fail(ErrorKind::kInput, "device '{}' is none of cpu, cuda, cuda:N", name);
  return with_public_errors([&]() -> DeviceState& { return add_device(own, open_gpu(*index)); });
}

/// x on another device.
class ToDevice : public Operation {
 public:
  explicit ToDevice(DeviceState& to) : to_(to) {}
  std::string_view name() const override { return "to_device"; }
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    return {to_device(cotangents.front(), in.front().device())};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {to_device(tangents.front(), handle_of(to_))};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {to_device(in[0], handle_of(to_))};
  }

 private:
  DeviceState& to_;
};

std::vector<Data> ToDevice::evaluate(std::span<const Operand> in, std::span<const Spec> out) const {
  const Operand& x = in.front();
  DeviceState& from = x.data->buffer->device();
  Data packed = *x.data;
  if (packed.strides != contiguous_strides(x.spec->shape)) {
    const OnDevice source(from);
    packed = evaluate_one(ElementOp::kCopy, in, *x.spec);
  }
  const Operand contiguous{x.spec, &packed};
  const size_t bytes = static_cast<size_t>(element_count(x.spec->shape)) * byte_size(x.spec->dtype);
  Data data = new_data(out.front());
  if (from.is_cpu()) {
    to_.kernels->upload(data.buffer->data(), contiguous.first(), bytes);
    // Page-locked memory of a caller is read later.
    if (packed.buffer->is_borrowed()) to_.kernels->wait();
  } else if (to_.is_cpu()) {
    from.kernels->download(data.buffer->data(), contiguous.first(), bytes);
  } else {
    std::vector<std::byte> host(bytes);
    from.kernels->download(host.data(), contiguous.first(), bytes);
    to_.kernels->upload(data.buffer->data(), host.data(), bytes);
  }
  return {std::move(data)};
}

}  // namespace

MemoryPool& DeviceState::memory() const {
  return is_cpu() ? Runtime::get().memory() : kernels->memory();
}

void DeviceState::release(std::byte* data) const noexcept {
  try {
    memory().release(data);
  } catch (const veery::Error&) {  // the context cannot be made current
  }
}

DeviceState& cpu_device() { return table().devices.front(); }
DeviceState& default_device() { return *table().made_by_default; }
DeviceState& current_device() { return current != nullptr ? *current : cpu_device(); }

DeviceState& add_device(std::string name, std::shared_ptr<Backend> backend) {
  std::unique_ptr<TensorDevice> kernels = backend->make_tensor_device();
  if (kernels == nullptr)
    fail(ErrorKind::kUnsupported, "device {}: there are no kernels for tensors", name);
  kernels->memory().set_cache_limit(kDeviceCacheLimit);
  const std::lock_guard lock(table().mutex);
  for (DeviceState& device : table().devices)
    if (device.name == name) return device;
  return table().devices.emplace_back(
      DeviceState{std::move(name), std::move(backend), std::move(kernels)});
}

OnDevice::OnDevice(DeviceState& device) : before_(current) { current = &device; }
OnDevice::~OnDevice() { current = before_; }

void throw_public(const veery::Error& error) {
  ErrorKind kind = ErrorKind::kInternal;
  if (error.kind() == veery::ErrorKind::kLimit) kind = ErrorKind::kLimit;
  if (error.kind() == veery::ErrorKind::kInput) kind = ErrorKind::kInput;
  if (error.kind() == veery::ErrorKind::kUnsupported) kind = ErrorKind::kUnsupported;
  throw Error(kind, error.what());
}

DeviceState& device_of(const Tensor& x) {
  Node& node = *x.node();
  if (node.device == nullptr) {
    // A node that a transform made: the device of the first input with a place of its own.
    node.device = node.inputs.empty() ? &default_device() : &device_of(node.inputs.front());
    for (const Tensor& input : node.inputs)
      if (constant_value(input) == nullptr) {
        node.device = &device_of(input);
        break;
      }
  }
  return *node.device;
}

namespace {

// A constant as one of another device.
Tensor constant_on(const Tensor& x, DeviceState& device) {
  auto node = std::make_shared<Node>();
  node->operation = x.node()->operation;
  node->specs = x.node()->specs;
  node->device = &device;
  for (const Tensor& input : x.node()->inputs) node->inputs.push_back(constant_on(input, device));
  return {std::move(node), x.output()};
}

}  // namespace

DeviceState& place_inputs(std::string_view function, std::vector<Tensor>& inputs) {
  if (inputs.empty()) return default_device();
  DeviceState* device = &device_of(inputs.front());
  const auto is_there = [&](const Tensor& x) { return &device_of(x) == device; };
  if (std::all_of(inputs.begin(), inputs.end(), is_there)) return *device;
  const Tensor* first = nullptr;
  for (const Tensor& x : inputs) {
    if (constant_value(x) != nullptr) continue;
    if (first == nullptr) first = &x;
    if (&device_of(x) != &device_of(*first))
      fail(ErrorKind::kInput, "{}: operands are on {} and {}; to_device() moves one of them",
           function, device_of(*first).name, device_of(x).name);
  }
  if (first != nullptr) device = &device_of(*first);
  for (Tensor& x : inputs)
    if (!is_there(x)) x = constant_on(x, *device);
  return *device;
}

Device handle_of(DeviceState& device) { return Device(&device); }
Device::Device() : state_(&cpu_device()) {}
Device::Device(std::string_view name) : state_(&open(name)) {}
const std::string& Device::name() const { return state_->name; }
std::string Device::description() const {
  return state_->is_cpu() ? "CPU" : state_->kernels->description();
}

Device Tensor::device() const {
  require("device", *this);
  return handle_of(device_of(*this));
}

Tensor to_device(const Tensor& x, const Device& device) {
  require("to_device", x);
  DeviceState& to = *device.state();
  if (&device_of(x) == &to) return x;
  if (constant_value(x) != nullptr) return constant_on(x, to);
  const Tensor y = make(ToDevice(to), {x}, {x.shape(), x.dtype()});
  y.node()->device = &to;
  return y;
}

void set_default_device(const Device& device) { table().made_by_default = device.state(); }
Device get_default_device() { return handle_of(default_device()); }

void synchronize(const Device& device) {
  if (device.state()->is_cpu()) return;
  const std::lock_guard lock(Runtime::get().mutex());
  with_public_errors([&] { device.state()->kernels->wait(); });
}

MemoryUse memory_use(const Device& device) {
  const DeviceMemory memory = device.state()->memory().memory();
  return {memory.active, memory.peak, memory.cached};
}
void reset_peak_memory(const Device& device) { device.state()->memory().reset_peak(); }
void set_memory_limit(size_t bytes, const Device& device) {
  device.state()->memory().set_limit(bytes);
}
void set_cache_limit(size_t bytes, const Device& device) {
  device.state()->memory().set_cache_limit(bytes);
}
void clear_cache(const Device& device) { device.state()->memory().clear_cache(); }

}  // namespace veery::tensor
