#include "import/xlstm_tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "file/folder/row_sources.h"
#include "graph/ops/recurrence.h"
#include "import/unused_tensors.h"
#include "model/config.h"

namespace veery {
namespace {

void require(const ModelFile& file, const TensorView& tensor, bool holds, const char* expected) {
  if (holds) return;
  std::string shape;
  for (const int64_t size : tensor.shape)
    shape += (shape.empty() ? "" : " x ") + std::to_string(size);
  throw Error(ErrorKind::kFormat, "{}: tensor {} is {}, expected {}", file.path,
              printable(tensor.name), shape, expected);
}

// Returns a tensor whose element `i` is element order(i) of `tensor`.
template <typename Order>
TensorView rearranged(const TensorView& tensor, std::vector<int64_t> shape, const Order& order) {
  std::vector<std::byte> buffer;
  std::vector<float> values(static_cast<size_t>(tensor.elements())), result(values.size());
  decode(tensor.dtype, tensor.read(buffer), values);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = values[static_cast<size_t>(order(static_cast<int64_t>(i)))];
  std::vector<std::byte> bytes(result.size() * sizeof(float));
  std::memcpy(bytes.data(), result.data(), bytes.size());
  TensorView made = tensor;
  made.dtype = DType::kF32;
  made.data = {};
  made.shape = std::move(shape);
  made.source =
      make_bytes(std::move(bytes), static_cast<size_t>(made.shape.back()) * sizeof(float));
  return made;
}

// The package stores [heads, gate and to, from], or [heads, from, gate and to] for its CUDA
// kernels.
void arrange_recurrent_weight(const ModelFile& file, TensorView& tensor, bool cuda) {
  const int64_t heads = tensor.shape[0], size = cuda ? tensor.shape[1] : tensor.shape[2];
  const int64_t columns = kSlstmGates * heads * size;
  require(file, tensor, heads * size <= kMaxSize, "no more channels than a model can have");
  tensor = rearranged(tensor, {size, columns}, [&](int64_t i) {
    const int64_t from = i / columns, column = i % columns;
    const int64_t gate = column / (heads * size), head = column / size % heads, to = column % size;
    const int64_t out = gate * size + to;
    return head * kSlstmGates * size * size +
           (cuda ? from * kSlstmGates * size + out : out * size + from);
  });
}

// The bias has shape [gates, heads, size], or [heads, gates, size] for CUDA kernels.
void arrange_cells(ModelFile& file, TensorView& tensor) {
  require(file, tensor, tensor.shape.size() == 3 && tensor.shape[1] >= 1 && tensor.shape[2] >= 1,
          "3 dimensions");
  const int64_t heads = tensor.shape[0];
  const bool cuda = tensor.shape[2] == kSlstmGates * tensor.shape[1];
  require(file, tensor, cuda || tensor.shape[1] == kSlstmGates * tensor.shape[2],
          "heads x 4 times the head size x the head size, or with the last two swapped");
  const int64_t size = std::min(tensor.shape[1], tensor.shape[2]);
  const std::string bias = tensor.name.substr(0, tensor.name.rfind('.')) + ".bias";
  arrange_recurrent_weight(file, tensor, cuda);
  const auto found = std::ranges::find(file.tensors, bias, &TensorView::name);
  if (found == file.tensors.end() || !cuda) return;
  require(file, *found, found->elements() == kSlstmGates * heads * size,
          "one number per gate and channel");
  *found = rearranged(*found, {found->elements()}, [&](int64_t i) {
    const int64_t gate = i / (heads * size), head = i / size % heads;
    return (head * kSlstmGates + gate) * size + i % size;
  });
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

void arrange_xlstm_blocks(ModelFile& file) {
  std::vector<TensorView> halves;
  for (TensorView& tensor : file.tensors) {
    const std::string_view name = tensor.name;
    if (layer_part(tensor.name).first < 0) continue;
    if (name.ends_with(".slstm_r.weight")) {
      arrange_cells(file, tensor);
    } else if (name.ends_with(".cell_conv1d.weight")) {
      require(file, tensor, tensor.shape.size() == 3 && tensor.shape[1] == 1,
              "channels x 1 x width");
      tensor = transposed(reshaped(tensor, {tensor.shape[0], tensor.shape[2]}));
    } else if (ends_with_any(name, {".heads_q.weight", ".heads_k.weight", ".heads_v.weight",
                                    ".slstm_i.weight", ".slstm_f.weight", ".slstm_z.weight",
                                    ".slstm_o.weight"})) {
      require(file, tensor, tensor.shape.size() == 3 && tensor.shape[1] == tensor.shape[2],
              "square blocks");
      tensor = reshaped(tensor, {tensor.shape[0] * tensor.shape[1], tensor.shape[2]});
    } else if (name.ends_with(".ffn_up.weight")) {
      require(file, tensor, tensor.shape.size() == 2 && tensor.shape[0] % 2 == 0, "gate and up");
      const int64_t half = tensor.shape[0] / 2;
      const std::string layer = tensor.name.substr(0, tensor.name.rfind("ffn_up"));
      halves.push_back(slice_rows(tensor, layer + "ffn_gate.weight", 0, half));
      tensor = slice_rows(tensor, tensor.name, half, 2 * half);
    }
  }
  std::ranges::move(halves, std::back_inserter(file.tensors));
}

}  // namespace veery
