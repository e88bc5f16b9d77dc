#include "plan/params.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "plan/weight_use.h"

namespace veery {
namespace {

constexpr size_t kParamAlignment = 256;            // required by bulk copies of GPUs
constexpr int64_t kGrainBytes = int64_t{1} << 18;  // least bytes of a work item for one thread

/// The future memory layout of a parameter.
struct ParamLayout {
  std::string name;
  const TensorView* tensor = nullptr;
  Operand operand;      ///< without its address
  bool matrix = false;  ///< packed by the backend; else f32
  bool mapped = false;  ///< stays in the file
  size_t offset = 0, bytes = 0;
};
struct ParamLayouts {
  std::vector<ParamLayout> all;
  size_t bytes = 0;
};

ParamAttr attr_of(const Node& node) {
  const auto* given = node.attr.get<ParamAttr>();
  return given == nullptr ? ParamAttr{} : *given;
}

// Returns the names of the weights that argmax reads: some runs need only the largest product.
std::set<std::string> argmax_weights(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kArgmax) continue;
    const Node* from = &graph[node.in[UnaryIn::kX]];
    while (from->op == op::kScale || from->op == op::kSoftcap) from = &graph[from->in[UnaryIn::kX]];
    if (from->op != op::kLinear) continue;
    const Node& weight = graph[from->in[LinearIn::kWeight]];
    if (weight.op == op::kParam) names.insert(weight.name);
  }
  return names;
}

ParamLayout layout_of(const ModelFile& file, const Node& node, WeightUse use,
                      const Backend& backend) {
  const TensorView& tensor = checked_tensor(file, node);
  const Shape& shape = node.shape();
  ParamLayout layout{.name = node.name, .tensor = &tensor, .matrix = is_matrix(node)};
  if (!layout.matrix) {
    layout.operand = row_major({shape, DType::kF32});
    layout.bytes = static_cast<size_t>(layout.operand.rows * layout.operand.stride);
    return layout;
  }
  use.dtype = tensor.dtype;
  use.rows = shape.rows().size;
  use.cols = shape.cols();
  if (shape.rank > 2) use.stack = shape[0].size;
  use.in_file = tensor.source == nullptr && file.mapping_of(tensor) != nullptr;
  layout.operand = backend.weight(use);
  layout.mapped = backend.reads_in_file(use);
  layout.bytes = layout.mapped ? 0 : backend.weight_bytes(layout.operand);
  return layout;
}

// The layouts and offsets of all parameters of a graph except those in `there`.
ParamLayouts lay_out_params(const ModelFile& file, const Graph& graph, const Backend& backend,
                            const std::map<std::string, Operand>& there) {
  ParamLayouts layouts;
  const std::set<std::string> largest = argmax_weights(graph);
  std::map<std::string, ParamUse> uses = param_uses(graph);
  std::set<std::string_view> seen;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kParam || there.contains(node.name) || !seen.insert(node.name).second)
      continue;
    const WeightUse use{.only_gathered = uses[node.name].is_only_gathered(),
                        .argmax = largest.contains(node.name)};
    ParamLayout& layout = layouts.all.emplace_back(layout_of(file, node, use, backend));
    layout.offset = layouts.bytes;
    layouts.bytes += (layout.bytes + kParamAlignment - 1) / kParamAlignment * kParamAlignment;
  }
  return layouts;
}

// Checked before the first tensor is read, because loading a large model takes minutes.
void check_room(size_t bytes, Device& device) {
  const MemoryPool* pool = device.pool();
  if (pool != nullptr && bytes > pool->available())
    throw Error(ErrorKind::kLimit, "{}: the weights take {} bytes, {} can be had", pool->name(),
                bytes, pool->available());
}

// Converts a single row, or a matrix that is read element by element, to f32.
void decode_floats(const TensorView& tensor, std::span<float> out) {
  std::vector<std::byte> stored;
  TensorView whole = tensor;
  whole.data = tensor.read(stored);
  check_finite_scales(whole);
  decode(tensor.dtype, whole.data, out);
}

// Packs the rows [first, last) of matrix `index` of a stack to `matrix`, the beginning of the
// packed matrix in the host's memory.
void pack_rows(const ModelFile& file, const ParamLayout& layout, int64_t index, int64_t first,
               int64_t last, const Backend& backend, std::byte* matrix) {
  const TensorView& tensor = *layout.tensor;
  const size_t row = byte_size(tensor.dtype, layout.operand.cols);
  const int64_t before = index * (layout.operand.rows / layout.operand.stack);
  const size_t begin = static_cast<size_t>(before + first) * row;
  const size_t size = static_cast<size_t>(last - first) * row;
  if (tensor.source == nullptr) {
    check_finite_scales(tensor, begin, size);
    backend.pack(layout.operand, tensor.data.data() + begin, first, last, matrix);
    return file.release(tensor, begin, size);
  }
  std::vector<std::byte> computed(size);
  tensor.source->read(before + first, before + last, computed.data());
  TensorView piece = tensor;
  piece.data = computed;
  check_finite_scales(piece);
  backend.pack(layout.operand, computed.data(), first, last, matrix);
}

// Packs a matrix in the layout of the backend's kernels, in pieces for all threads.
void pack(const ModelFile& file, const ParamLayout& layout, ThreadPool& pool,
          const Backend& backend, std::byte* bytes) {
  const Operand& operand = layout.operand;
  const int64_t height = operand.rows / operand.stack;
  const int64_t panel = std::max<int64_t>(1, operand.stride * (in_panels(operand) ? 1 : kLanes));
  const int64_t rows = std::max<int64_t>(1, kGrainBytes / panel) * kLanes;
  const int64_t pieces = (height + rows - 1) / rows;
  const size_t matrix = layout.bytes / static_cast<size_t>(operand.stack);
  pool.parallel_for(operand.stack * pieces, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t index = i / pieces, first = i % pieces * rows;
      pack_rows(file, layout, index, first, std::min(first + rows, height), backend,
                bytes + static_cast<size_t>(index) * matrix);
    }
  });
}

// Writes a parameter to the memory of its device.
void fill(const ModelFile& file, const ParamLayout& layout, const Operand& operand,
          ThreadPool& pool, Backend& backend) {
  Device& device = backend.device();
  std::byte* const shared = device.host(operand.data);  // written directly if not nullptr
  std::vector<std::byte> staged(shared != nullptr ? 0 : layout.bytes);
  std::byte* const bytes = shared != nullptr ? shared : staged.data();
  if (layout.matrix)
    pack(file, layout, pool, backend, bytes);
  else
    decode_floats(*layout.tensor, {reinterpret_cast<float*>(bytes), layout.bytes / sizeof(float)});
  if (shared == nullptr) device.upload(operand.data, bytes, layout.bytes);
  file.release(*layout.tensor);  // the pages that two pieces share, and those mapped ahead
}

// Reads through a tensor that stays in the file.
void check_mapped(const ModelFile& file, const ParamLayout& layout, ThreadPool& pool) {
  const TensorView& tensor = *layout.tensor;
  const size_t row = byte_size(tensor.dtype, layout.operand.cols);
  const auto grain = static_cast<int64_t>(std::max<size_t>(1, (size_t{1} << 20) / row));
  const int64_t pieces = (layout.operand.rows + grain - 1) / grain;
  pool.parallel_for_long(pieces, [&](int64_t from, int64_t to) {
    const int64_t first = from * grain, last = std::min(to * grain, layout.operand.rows);
    const size_t begin = static_cast<size_t>(first) * row;
    const size_t bytes = static_cast<size_t>(last - first) * row;
    check_finite_scales(tensor, begin, bytes);
    file.release(tensor, begin, bytes);
  });
}

}  // namespace

const TensorView& checked_tensor(const ModelFile& file, const Node& node) {
  const TensorView& tensor = file.at(node.name);
  const Shape& shape = node.shape();
  if (!has_shape(tensor, node))
    throw Error(ErrorKind::kFormat, "{}: tensor {} is {}, the configuration says {} x {}",
                file.path, printable(tensor.name), shape_text(tensor.shape), shape.rows().size,
                shape.cols());
  if (!info(tensor.dtype).decodable)
    throw Error(ErrorKind::kUnsupported, "{}: tensor {} has type {}, which cannot be a weight",
                file.path, printable(tensor.name), info(tensor.dtype).name);
  return tensor;
}

bool is_matrix(const Node& node) {
  const Shape& shape = node.shape();
  return !attr_of(node).plain && (shape.rank > 2 || shape.rows() != Dim(1));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t d : shape) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text;
}

// The file may store [1, n] as a vector, and a stack as one tall matrix.
bool has_shape(const TensorView& tensor, const Node& node) {
  const Shape& shape = node.shape();
  std::vector<int64_t> dims = tensor.shape;
  if (const int32_t vectors = attr_of(node).vectors)
    return tensor.elements() == shape.cols() && !dims.empty() &&
           shape.cols() / vectors == dims.back();
  if (shape.rank == 3 && dims.size() == 3 && Dim(dims[0]) == shape[0]) {
    dims[1] *= dims[0];
    dims.erase(dims.begin());
  }
  while (dims.size() > 2 && dims.front() == 1) dims.erase(dims.begin());
  if (dims.size() == 1) return shape.rows() == Dim(1) && dims[0] == shape.cols();
  return dims.size() == 2 && Dim(dims[0]) == shape.rows() && dims[1] == shape.cols();
}

void ParamStore::load(const ModelFile& file, const Graph& graph, ThreadPool& pool, Backend& backend,
                      const Progress& progress) {
  const ParamLayouts layouts = lay_out_params(file, graph, backend, operands_);
  check_room(layouts.bytes, backend.device());
  Memory& memory = memory_.emplace_back();
  if (layouts.bytes > 0) memory = backend.device().allocate(layouts.bytes);
  bytes_ += layouts.bytes;
  size_t done = 0;
  for (const ParamLayout& layout : layouts.all) {
    Operand operand = layout.operand;
    if (layout.mapped) {
      check_mapped(file, layout, pool);
      mappings_.push_back(file.mapping_of(*layout.tensor));
      operand.data = const_cast<std::byte*>(layout.tensor->data.data());  // NOLINT: read only
    } else {
      operand.data = memory.data() + layout.offset;
      fill(file, layout, operand, pool, backend);
    }
    operands_.emplace(layout.name, operand);
    done += layout.bytes;
    if (progress) progress(done, layouts.bytes);
  }
}

void ParamStore::lay_out(const ModelFile& file, const Graph& graph, const Backend& backend) {
  const ParamLayouts layouts = lay_out_params(file, graph, backend, operands_);
  const Memory& memory = memory_.emplace_back(layouts.bytes, true);
  bytes_ += layouts.bytes;
  for (const ParamLayout& layout : layouts.all) {
    Operand operand = layout.operand;
    operand.data = layout.mapped
                       ? const_cast<std::byte*>(layout.tensor->data.data())  // NOLINT: read only
                       : memory.data() + layout.offset;
    operands_.emplace(layout.name, operand);
  }
}

void ParamStore::borrow(const ParamStore& other, std::span<const std::string> names) {
  for (const std::string& name : names)
    if (const auto found = other.operands_.find(name); found != other.operands_.end())
      operands_.emplace(*found);
  mappings_.insert(mappings_.end(), other.mappings_.begin(), other.mappings_.end());
}

Operand& ParamStore::add(const std::string& name, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.rows().size * shape.cols()) * sizeof(float);
  Memory& memory = memory_.emplace_back(bytes);
  bytes_ += bytes;
  Operand operand{.data = memory.data(),
                  .stride = shape.cols() * int64_t{sizeof(float)},
                  .rows = shape.rows().size,
                  .cols = static_cast<int32_t>(shape.cols()),
                  .layout = Layout::kRowMajor};
  return operands_.insert_or_assign(name, operand).first->second;
}

const Operand& ParamStore::at(const std::string& name) const {
  const auto found = operands_.find(name);
  if (found == operands_.end()) throw Error(ErrorKind::kFormat, "weight {} is not loaded", name);
  return found->second;
}

size_t stored_bytes(const Operand& operand) {
  const int64_t units = in_panels(operand)
                            ? operand.stack * ((operand.rows / operand.stack + kLanes - 1) / kLanes)
                            : operand.rows;
  return static_cast<size_t>(units * operand.stride);
}

}  // namespace veery
