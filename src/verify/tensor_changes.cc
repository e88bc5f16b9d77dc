#include "verify/tensor_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/error.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

// The rows of a tensor of any type, decoded to f32.
class Decoded final : public RowSource {
 public:
  explicit Decoded(TensorView tensor) : tensor_(std::move(tensor)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const size_t row = byte_size(tensor_.dtype, tensor_.shape.back());
    const auto rows = static_cast<size_t>(last - first);
    std::vector<std::byte> made;
    std::span<const std::byte> bytes;
    if (tensor_.source) {
      made.resize(rows * row);
      tensor_.source->read(first, last, made.data());
      bytes = made;
    } else {
      bytes = tensor_.data.subspan(static_cast<size_t>(first) * row, rows * row);
    }
    std::vector<float> values(rows * static_cast<size_t>(tensor_.shape.back()));
    decode(tensor_.dtype, bytes, values);
    std::memcpy(out, values.data(), values.size() * sizeof(float));
  }

 private:
  TensorView tensor_;
};

bool is_part(std::string_view name, std::string_view part) {
  return name.ends_with(part) &&
         (name.size() == part.size() || name[name.size() - part.size() - 1] == '.');
}

std::vector<const TensorView*> of_part(const ModelFile& file, std::string_view part) {
  std::vector<const TensorView*> found;
  for (const TensorView& tensor : file.tensors)
    if (is_part(tensor.name, part)) found.push_back(&tensor);
  return found;
}

}  // namespace

bool has_part(const ModelFile& file, std::string_view part) {
  return std::ranges::any_of(file.tensors,
                             [&](const TensorView& tensor) { return is_part(tensor.name, part); });
}

bool is_square(const ModelFile& file, std::string_view part) {
  const auto found = of_part(file, part);
  return !found.empty() && std::ranges::all_of(found, [](const TensorView* tensor) {
    return tensor->shape.size() == 2 && tensor->shape[0] == tensor->shape[1];
  });
}

bool can_swap(const ModelFile& file, std::string_view one, std::string_view other) {
  const auto a = of_part(file, one);
  const auto b = of_part(file, other);
  return !a.empty() && a.size() == b.size() &&
         std::ranges::all_of(std::views::iota(size_t{0}, a.size()),
                             [&](size_t i) { return a[i]->shape == b[i]->shape; });
}

void change_parts(ModelFile& file, std::span<const std::string> parts, const TensorChange& change) {
  for (TensorView& tensor : file.tensors)
    if (std::ranges::any_of(parts, [&](const auto& part) { return is_part(tensor.name, part); }))
      tensor = change(tensor);
}

void drop_parts(ModelFile& file, const std::vector<std::string>& parts) {
  std::erase_if(file.tensors, [&](const TensorView& tensor) {
    return std::ranges::any_of(parts, [&](const auto& part) { return is_part(tensor.name, part); });
  });
}

void swap_parts(ModelFile& file, std::string_view one, std::string_view other) {
  for (TensorView& tensor : file.tensors)
    for (const auto& [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
      if (!is_part(tensor.name, from)) continue;
      tensor.name.replace(tensor.name.size() - from.size(), from.size(), to);
      break;
    }
}

void swap_layers(ModelFile& file, int32_t one, int32_t other) {
  const std::string a = fmt::format("blk.{}.", one), b = fmt::format("blk.{}.", other);
  for (TensorView& tensor : file.tensors)
    if (tensor.name.starts_with(a))
      tensor.name.replace(0, a.size(), b);
    else if (tensor.name.starts_with(b))
      tensor.name.replace(0, b.size(), a);
}

TensorChange pair_order(const TransformerConfig& config, bool to_neighbours) {
  return [head = int64_t{config.attention.head_dim}, dims = int64_t{config.positions.rope.dims},
          to_neighbours](const TensorView& tensor) {
    const int64_t rows = tensor.shape[0];
    if (rows % head != 0)
      throw Error(ErrorKind::kInput, "{} has {} rows, heads have {}", tensor.name, rows, head);
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = row % head;
      int64_t from = i;
      if (i < dims)
        from = to_neighbours ? i % 2 * (dims / 2) + i / 2 : i % (dims / 2) * 2 + i / (dims / 2);
      order[static_cast<size_t>(row)] = row - i + from;
    }
    return reordered_rows(tensor, order);
  };
}

TensorChange added(float addend) {
  return [addend](const TensorView& tensor) {
    TensorView sum = tensor;
    sum.source = make_sum(tensor, addend);
    sum.dtype = DType::kF32;
    sum.data = {};
    return sum;
  };
}

TensorChange turned() {
  return [](const TensorView& tensor) {
    if (info(tensor.dtype).block == 1) return transposed(tensor);
    TensorView plain{tensor.name, DType::kF32, tensor.shape, {}};
    plain.source = std::make_shared<Decoded>(tensor);
    return transposed(plain);
  };
}

}  // namespace veery
