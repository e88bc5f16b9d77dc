#include "plan/params.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/kernels.h"
#include "plan/weight_use.h"

namespace veery {
namespace {

struct Entry {
  const TensorView* tensor;
  Shape shape;
  bool matrix;  // which products are made with; else f32
  bool packed;
  uint8_t format;  // WeightFormat::panels
  bool mapped;     // stays in the file
  int64_t stack;   // matrices in panels of their own
  size_t offset, bytes;

  int64_t rows() const { return shape.rows().size; }  // of all matrices
  int64_t cols() const { return shape.cols(); }
  int64_t height() const { return rows() / stack; }
  int64_t panels() const { return (height() + kLanes - 1) / kLanes; }  // of a matrix
};

ParamAttr attr_of(const Node& node) {
  const auto* given = node.attr.get<ParamAttr>();
  return given == nullptr ? ParamAttr{} : *given;
}

Entry find_entry(const ModelFile& file, const Node& node) {
  const TensorView& tensor = checked_tensor(file, node);
  const Shape& shape = node.shape();
  const bool matrix = is_matrix(node);
  Entry entry{&tensor, shape, matrix, matrix && can_pack(tensor.dtype), 0, false, 1, 0, 0};
  if (shape.rank > 2) entry.stack = shape[0].size;
  entry.bytes = entry.packed ? static_cast<size_t>(entry.stack) *
                                   packed_bytes(tensor.dtype, entry.height(), entry.cols())
                : matrix ? tensor.bytes()
                         : static_cast<size_t>(entry.rows() * entry.cols()) * sizeof(float);
  return entry;
}

Operand make_operand(const Entry& entry, std::byte* base) {
  const TensorView& tensor = *entry.tensor;
  // Nothing writes to weights.
  Operand operand{.data = entry.mapped ? const_cast<std::byte*>(tensor.data.data())  // NOLINT
                                       : base + entry.offset,
                  .rows = entry.rows(),
                  .cols = static_cast<int32_t>(entry.cols())};
  operand.layout = entry.packed ? Layout::kPanels : Layout::kRowMajor;
  operand.format = entry.format;
  operand.dtype = entry.matrix ? tensor.dtype : DType::kF32;
  operand.stack = static_cast<int32_t>(entry.stack);
  operand.stride = static_cast<int64_t>(entry.packed ? panel_bytes(tensor.dtype, entry.cols())
                                                     : byte_size(operand.dtype, entry.cols()));
  return operand;
}

// The weights of whose products only the largest is wanted, in some runs.
std::set<std::string> argmax_weights(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kArgmax) continue;
    const Node* from = &graph[node.in[UnaryIn::kX]];
    while (from->op == op::kScale || from->op == op::kSoftcap) from = &graph[from->in[UnaryIn::kX]];
    if (from->op != op::kLinear || from->as<LinearAttr>().weights != 1) continue;
    const Node& weight = graph[from->in[LinearIn::kWeight]];
    if (weight.op == op::kParam) names.insert(weight.name);
  }
  return names;
}

// Whether a weight that is only gathered can be read from the mapped file without a copy.
bool can_stay(const ModelFile& file, const Entry& entry) {
  return entry.tensor->source == nullptr && entry.rows() > 1 && entry.stack == 1 &&
         file.mapping_of(*entry.tensor) != nullptr;
}

// Such a weight has panels for it, if there are any for its type. A tensor that is computed is
// packed in pieces, each as if it were a weight, which these need not allow.
void format_for_argmax(Entry& entry) {
  if (!entry.packed || entry.stack != 1 || entry.tensor->source != nullptr) return;
  const WeightFormat format = veery::format_for_argmax(entry.tensor->dtype);
  entry.format = format.panels;
  entry.bytes = packed_bytes(format, entry.height(), entry.cols());
}

// Copies one tensor into its layout as a whole.
void fill_plain(const TensorView& tensor, const Entry& entry, const Operand& operand) {
  std::vector<std::byte> buffer;
  TensorView whole = tensor;
  whole.data = tensor.read(buffer);
  check_finite_scales(whole);
  if (entry.matrix)
    std::copy(whole.data.begin(), whole.data.end(), operand.data);
  else
    decode(tensor.dtype, whole.data,
           {operand.row<float>(0), static_cast<size_t>(entry.rows() * entry.cols())});
}

// Panels [first, last) of the matrix `index` of a stack.
struct Piece {
  int64_t index, first, last;
};

// Packs panels of a tensor whose rows are computed.
void pack_made(const Entry& entry, const Piece& p, const Operand& operand) {
  const TensorView& tensor = *entry.tensor;
  const int64_t begin = p.index * entry.height() + p.first * kLanes;
  const int64_t rows = std::min(p.last * kLanes, entry.height()) - p.first * kLanes;
  std::vector<std::byte> buffer(byte_size(tensor.dtype, rows * entry.cols()));
  tensor.source->read(begin, begin + rows, buffer.data());
  TensorView piece = tensor;
  piece.data = buffer;
  check_finite_scales(piece);
  pack_panels(tensor.dtype, buffer.data(), rows, entry.cols(),
              operand.of_stack(p.index).data + p.first * operand.stride, 0, p.last - p.first);
}

// Packs panels of a tensor that lies in the file.
void pack_stored(const ModelFile& file, const Entry& entry, const Piece& p,
                 const Operand& operand) {
  const TensorView& tensor = *entry.tensor;
  const size_t row = byte_size(tensor.dtype, entry.cols());
  const size_t matrix = static_cast<size_t>(p.index * entry.height()) * row;
  const size_t begin = matrix + static_cast<size_t>(p.first * kLanes) * row;
  const size_t bytes =
      matrix + static_cast<size_t>(std::min(p.last * kLanes, entry.height())) * row - begin;
  check_finite_scales(tensor, begin, bytes);
  pack_panels({tensor.dtype, entry.format}, tensor.data.data() + matrix, entry.height(),
              entry.cols(), operand.of_stack(p.index).data, p.first, p.last);
  file.release(tensor, begin, bytes);
}

// Reads through a tensor that stays in the file.
void check_mapped(const ModelFile& file, const Entry& entry, ThreadPool& pool) {
  const TensorView& tensor = *entry.tensor;
  const size_t row = byte_size(tensor.dtype, entry.cols());
  const auto grain = static_cast<int64_t>(std::max<size_t>(1, (size_t{1} << 20) / row));
  pool.parallel_for(entry.rows(), grain, [&](int64_t first, int64_t last) {
    const size_t begin = static_cast<size_t>(first) * row;
    const size_t bytes = static_cast<size_t>(last - first) * row;
    check_finite_scales(tensor, begin, bytes);
    file.release(tensor, begin, bytes);
  });
}

struct Laid {
  std::vector<std::pair<std::string, Entry>> entries;
  size_t bytes = 0;
};

// The layouts and offsets of all parameters of a graph except those in `there`.
Laid lay_out_entries(const ModelFile& file, const Graph& graph,
                     const std::map<std::string, Operand>& there) {
  Laid laid;
  const std::set<std::string> largest = argmax_weights(graph);
  std::map<std::string, ParamUse> uses = param_uses(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kParam || there.contains(node.name)) continue;
    Entry entry = find_entry(file, node);
    if (uses[node.name].is_only_gathered() && can_stay(file, entry)) {
      entry.packed = false;
      entry.mapped = true;
      entry.bytes = 0;
    }
    if (largest.contains(node.name)) format_for_argmax(entry);
    entry.offset = laid.bytes;
    laid.bytes += aligned(entry.bytes);
    laid.entries.emplace_back(node.name, entry);
  }
  return laid;
}

// Copies one tensor into its layout, in pieces of some panels so that all threads have work.
void fill(const ModelFile& file, const Entry& entry, const Operand& operand, ThreadPool& pool) {
  const TensorView& tensor = *entry.tensor;
  if (!entry.packed) return fill_plain(tensor, entry, operand);
  const int64_t each = entry.panels();
  const int64_t grain =
      std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, operand.stride));
  pool.parallel_for(entry.stack * each, grain, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last;) {
      const int64_t index = at / each;
      const Piece piece{index, at % each, std::min(last - index * each, each)};
      if (tensor.source)
        pack_made(entry, piece, operand);
      else
        pack_stored(file, entry, piece, operand);
      at = index * each + piece.last;
    }
  });
  file.release(tensor);  // the pages that two pieces share, and those that the system mapped ahead
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

// A graph's [1, n] is a vector in the file; a stack may lie there as one matrix below the other.
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

void ParamStore::load(const ModelFile& file, const Graph& graph, ThreadPool& pool,
                      const Progress& progress) {
  const Laid laid = lay_out_entries(file, graph, operands_);
  Memory& memory = memory_.emplace_back(laid.bytes);
  bytes_ += laid.bytes;
  size_t done = 0;
  for (const auto& [name, entry] : laid.entries) {
    const Operand operand = make_operand(entry, memory.data());
    if (entry.mapped) {
      check_mapped(file, entry, pool);
      mappings_.push_back(file.mapping_of(*entry.tensor));
    } else {
      fill(file, entry, operand, pool);
    }
    operands_.emplace(name, operand);
    done += entry.bytes;
    if (progress) progress(done, laid.bytes);
  }
}

void ParamStore::lay_out(const ModelFile& file, const Graph& graph, const Backend* backend) {
  if (backend != nullptr) return lay_out_on(file, graph, *backend);
  const Laid laid = lay_out_entries(file, graph, operands_);
  const Memory& memory = memory_.emplace_back(laid.bytes, true);
  bytes_ += laid.bytes;
  for (const auto& [name, entry] : laid.entries)
    operands_.emplace(name, make_operand(entry, memory.data()));
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
