// Weights in the memory of a device.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "plan/params.h"
#include "plan/weight_use.h"

namespace veery {
namespace {

constexpr int64_t kGrain = 16 * 16;  // rows that a thread packs at a time

// A single row, or a matrix that is read element by element: f32.
std::vector<std::byte> floats_of(const TensorView& tensor, const Shape& shape) {
  std::vector<std::byte> stored;
  TensorView whole = tensor;
  whole.data = tensor.read(stored);
  check_finite_scales(whole);
  std::vector<std::byte> floats(static_cast<size_t>(shape.rows().size * shape.cols()) *
                                sizeof(float));
  decode(tensor.dtype, whole.data,
         {reinterpret_cast<float*>(floats.data()), floats.size() / sizeof(float)});
  return floats;
}

/// A parameter as it will lie on a device, all but its address.
struct Stored {
  Operand operand;
  size_t size = 0;
  bool packed = false;  ///< by the backend; else f32
};

Stored stored_as(const TensorView& tensor, const Node& node, const ParamUse& uses,
                 const Backend& backend) {
  const Shape& shape = node.shape();
  Operand operand{.stride = shape.cols() * int64_t{sizeof(float)},
                  .rows = shape.rows().size,
                  .cols = static_cast<int32_t>(shape.cols()),
                  .layout = Layout::kRowMajor};
  if (!is_matrix(node)) return {operand, static_cast<size_t>(operand.rows * operand.stride), false};
  WeightUse use{.dtype = tensor.dtype,
                .rows = operand.rows,
                .cols = operand.cols,
                .gathered = uses.gathered,
                .multiplied = uses.multiplied};
  if (shape.rank > 2) use.stack = shape[0].size;
  operand = backend.weight(use);
  return {operand, backend.weight_bytes(operand), true};
}

// All parameters of a graph except those in `there`.
std::vector<std::pair<const Node*, Stored>> wanted_of(const ModelFile& file, const Graph& graph,
                                                      const Backend& backend,
                                                      const std::map<std::string, Operand>& there) {
  std::vector<std::pair<const Node*, Stored>> wanted;
  std::set<std::string_view> seen;
  std::map<std::string, ParamUse> uses = param_uses(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kParam || there.contains(node.name) || !seen.insert(node.name).second)
      continue;
    const TensorView& tensor = checked_tensor(file, node);
    wanted.emplace_back(&node, stored_as(tensor, node, uses[node.name], backend));
  }
  return wanted;
}

// Known before the first tensor is read: loading a large model takes minutes.
void check_room(size_t bytes, Device& device) {
  const MemoryPool* pool = device.pool();
  if (pool != nullptr && bytes > pool->available())
    throw Error(ErrorKind::kLimit, "{}: the weights take {} bytes, {} can be had", pool->name(),
                bytes, pool->available());
}

// A matrix as the backend's kernels read it, to where the host finds it.
void pack(const ModelFile& file, const TensorView& tensor, const Operand& operand, ThreadPool& pool,
          const Backend& backend, std::span<std::byte> bytes) {
  const size_t row = byte_size(tensor.dtype, operand.cols);
  const int64_t height = operand.rows / operand.stack, pieces = (height + kGrain - 1) / kGrain;
  const size_t matrix = bytes.size() / static_cast<size_t>(operand.stack);
  // Piece `index` of those of all matrices of a stack.
  const auto pack_piece = [&](int64_t index) {
    const int64_t before = index / pieces * height;  // rows of other matrices
    const int64_t first = index % pieces * kGrain, last = std::min(first + kGrain, height);
    const size_t begin = static_cast<size_t>(before + first) * row;
    const size_t size = static_cast<size_t>(last - first) * row;
    std::byte* to = bytes.data() + static_cast<size_t>(index / pieces) * matrix;
    if (tensor.source == nullptr) {
      check_finite_scales(tensor, begin, size);
      backend.pack(operand, tensor.data.data() + begin, first, last, to);
      return file.release(tensor, begin, size);
    }
    std::vector<std::byte> made(size);
    tensor.source->read(before + first, before + last, made.data());
    TensorView piece = tensor;
    piece.data = made;
    check_finite_scales(piece);
    backend.pack(operand, made.data(), first, last, to);
  };
  pool.parallel_for(operand.stack * pieces, 1, [&](int64_t from, int64_t to) {
    for (int64_t index = from; index < to; ++index) pack_piece(index);
  });
}

}  // namespace

void ParamStore::lay_out_on(const ModelFile& file, const Graph& graph, const Backend& backend) {
  for (auto& [node, stored] : wanted_of(file, graph, backend, operands_)) {
    stored.operand.data = memory_.emplace_back(stored.size, true).data();
    operands_.emplace(node->name, stored.operand);
    bytes_ += stored.size;
  }
}

void ParamStore::load(const ModelFile& file, const Graph& graph, ThreadPool& pool, Backend& backend,
                      const Progress& progress) {
  auto wanted = wanted_of(file, graph, backend, operands_);
  size_t total = 0, done = 0, bytes_wanted = 0;
  for (const Node& node : graph.nodes())
    if (node.op == op::kParam) total += file.at(node.name).bytes();
  for (const auto& [node, stored] : wanted) bytes_wanted += stored.size;
  Device& device = backend.device();
  check_room(bytes_wanted, device);
  for (auto& [node, stored] : wanted) {
    const TensorView& tensor = checked_tensor(file, *node);
    const size_t size = stored.size;
    Memory& memory = memory_.emplace_back(device.allocate(size));
    std::byte* const shared = device.host(memory.data());
    if (!stored.packed) {
      const std::vector<std::byte> floats = floats_of(tensor, node->shape());
      device.upload(memory.data(), floats.data(), size);
    } else if (shared != nullptr) {  // no copy
      pack(file, tensor, stored.operand, pool, backend, {shared, size});
    } else {
      std::vector<std::byte> bytes(size);
      pack(file, tensor, stored.operand, pool, backend, bytes);
      device.upload(memory.data(), bytes.data(), size);
    }
    file.release(tensor);
    stored.operand.data = memory.data();
    operands_.emplace(node->name, stored.operand);
    bytes_ += size;
    done += tensor.bytes();
    if (progress) progress(done, total);
  }
}

}  // namespace veery
