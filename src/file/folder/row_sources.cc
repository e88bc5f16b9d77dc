#include "file/folder/row_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "dtype/fp8.h"

namespace veery {
namespace {

class Copy final : public RowSource {
 public:
  Copy(std::span<const std::byte> data, size_t row_bytes) : data_(data), row_bytes_(row_bytes) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const auto begin = static_cast<size_t>(first) * row_bytes_;
    std::memcpy(out, data_.data() + begin, static_cast<size_t>(last) * row_bytes_ - begin);
  }

 private:
  std::span<const std::byte> data_;
  size_t row_bytes_;
};

class Held final : public RowSource {
 public:
  Held(std::vector<std::byte> bytes, size_t row_bytes)
      : bytes_(std::move(bytes)), rows_(bytes_, row_bytes) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    rows_.read(first, last, out);
  }

 private:
  std::vector<std::byte> bytes_;
  Copy rows_;
};

std::vector<float> decoded_rows(const TensorView& tensor, int64_t first, int64_t last) {
  const auto cols = static_cast<size_t>(tensor.shape.back());
  const auto begin = static_cast<size_t>(first) * cols;
  std::vector<float> values(static_cast<size_t>(last) * cols - begin);
  std::vector<std::byte> buffer;
  const size_t size = byte_size(tensor.dtype, 1);
  decode(tensor.dtype, tensor.read(buffer).subspan(begin * size, values.size() * size), values);
  return values;
}

class Product final : public RowSource {
 public:
  Product(const TensorView& tensor, float factor) : tensor_(tensor), factor_(factor) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    std::vector<float> values = decoded_rows(tensor_, first, last);
    for (float& value : values) value *= factor_;
    std::memcpy(out, values.data(), values.size() * sizeof(float));
  }

 private:
  TensorView tensor_;
  float factor_;
};

class Sum final : public RowSource {
 public:
  Sum(const TensorView& tensor, float addend) : tensor_(tensor), addend_(addend) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    std::vector<float> values = decoded_rows(tensor_, first, last);
    for (float& value : values) value += addend_;
    std::memcpy(out, values.data(), values.size() * sizeof(float));
  }

  const TensorView& tensor() const { return tensor_; }
  float addend() const { return addend_; }

 private:
  TensorView tensor_;
  float addend_;
};

// Rows of another tensor; for a tensor of one row, its elements from `begin` on.
class Slice final : public RowSource {
 public:
  Slice(const TensorView& whole, int64_t begin, size_t size)
      : whole_(whole), begin_(begin), size_(size) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    if (whole_.shape.size() > 1) return whole_.source->read(begin_ + first, begin_ + last, out);
    std::vector<std::byte> buffer;
    const size_t begin = byte_size(whole_.dtype, begin_);
    const std::span<const std::byte> rest = whole_.read(buffer).subspan(begin);
    std::memcpy(out, rest.data(), size_);
  }

 private:
  TensorView whole_;
  int64_t begin_;
  size_t size_;  // size of the part of a single row
};

// Rows of a matrix, or elements of a vector, in another order.
class Reordered final : public RowSource {
 public:
  Reordered(const TensorView& whole, std::span<const int64_t> order)
      : whole_(whole), order_(order.begin(), order.end()) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const size_t unit = whole_.bytes() / order_.size();
    if (whole_.shape.size() > 1) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i, out += unit)
        read_rows(whole_, order_[i], order_[i] + 1, out);
      return;
    }
    std::vector<std::byte> buffer;
    const std::span<const std::byte> data = whole_.read(buffer);
    for (size_t i = 0; i < order_.size(); ++i, out += unit)
      std::memcpy(out, data.data() + static_cast<size_t>(order_[i]) * unit, unit);
  }

 private:
  TensorView whole_;
  std::vector<int64_t> order_;
};

using Table = std::array<float, 256>;

const Table& table_of(StoredType type) {
  const auto make = [](float (*convert)(uint8_t)) {
    Table table{};
    for (size_t i = 0; i < table.size(); ++i) table[i] = convert(static_cast<uint8_t>(i));
    return table;
  };
  static const Table e4m3 = make(fp8_e4m3_to_f32);
  static const Table e5m2 = make(fp8_e5m2_to_f32);
  return type == StoredType::kF8_E4M3 ? e4m3 : e5m2;
}

// Scales of the blocks of a matrix.
struct Fp8Scales {
  std::vector<float> values;
  Fp8Blocks blocks;
  int64_t cols;

  float at(int64_t row, int64_t col) const {
    const int64_t across = (cols + blocks.cols - 1) / blocks.cols;
    return values[static_cast<size_t>(row / blocks.rows * across + col / blocks.cols)];
  }
};

template <int kElements>
class BlocksFp8 final : public RowSource {
 public:
  BlocksFp8(const StoredTensor& values, Fp8Scales scales)
      : data_(values.data), scales_(std::move(scales)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t row = first; row < last; ++row)
      for (int64_t col = 0; col < scales_.cols; col += kElements) {
        BlockFP8<kElements> block;
        block.d = scales_.at(row, col);
        std::memcpy(block.qs, data_.data() + row * scales_.cols + col, kElements);
        std::memcpy(out, &block, sizeof block);
        out += sizeof block;
      }
  }

 private:
  std::span<const std::byte> data_;
  Fp8Scales scales_;
};

class Fp8 final : public RowSource {
 public:
  Fp8(const StoredTensor& values, Fp8Scales scales)
      : data_(values.data), table_(table_of(values.type)), scales_(std::move(scales)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t row = first; row < last; ++row)
      for (int64_t begin = 0; begin < scales_.cols; begin += scales_.blocks.cols) {
        const float scale = scales_.at(row, begin);
        const int64_t end = std::min(begin + scales_.blocks.cols, scales_.cols);
        for (int64_t col = begin; col < end; ++col, out += sizeof(float)) {
          const std::byte bits = data_[static_cast<size_t>(row * scales_.cols + col)];
          const float value = table_[static_cast<size_t>(bits)] * scale;
          std::memcpy(out, &value, sizeof value);
        }
      }
  }

 private:
  std::span<const std::byte> data_;
  const Table& table_;
  Fp8Scales scales_;
};

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// Returns the block size with which `count` scales cover `size` elements; 0 if there is none.
int64_t block_size(int64_t size, int64_t count, int64_t wanted) {
  if (count < 1) return 0;
  const int64_t block = wanted > 0 && count > 1 ? wanted : blocks_in(size, count);
  return blocks_in(size, block) == count ? block : 0;
}

std::vector<float> read_scales(const StoredTensor& scale) {
  const auto dtype = to_dtype(scale.type);
  if (!dtype || !info(*dtype).decodable)
    throw Error(ErrorKind::kUnsupported, "tensor '{}' has type {}, expected floats for scales",
                printable(scale.name), name(scale.type));
  const size_t count = scale.data.size() / static_cast<size_t>(byte_size(scale.type));
  std::vector<std::byte> aligned(scale.data.begin(), scale.data.end());
  std::vector<float> values(count);
  decode(*dtype, aligned, values);
  for (const float value : values)
    if (!std::isfinite(value))
      throw Error(ErrorKind::kFormat, "tensor '{}' has a scale that is NaN or infinite",
                  printable(scale.name));
  return values;
}

}  // namespace

float fp8_e4m3_to_f32(uint8_t bits) {
  return is_nan_e4m3(bits) ? std::numeric_limits<float>::quiet_NaN() : e4m3_to_f32(bits);
}

float fp8_e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

std::shared_ptr<const RowSource> make_copy(std::span<const std::byte> data, size_t row_bytes) {
  return std::make_shared<Copy>(data, row_bytes);
}

std::shared_ptr<const RowSource> make_bytes(std::vector<std::byte> bytes, size_t row_bytes) {
  return std::make_shared<Held>(std::move(bytes), row_bytes);
}

std::shared_ptr<const RowSource> make_sum(const TensorView& tensor, float addend) {
  return std::make_shared<Sum>(tensor, addend);
}

TensorView with_factor(const TensorView& tensor, float factor) {
  if (factor == 1) return tensor;
  const TensorView plain = decoded(tensor);
  return {tensor.name, DType::kF32, tensor.shape, {}, std::make_shared<Product>(plain, factor)};
}

TensorView with_added(const TensorView& tensor, float addend) {
  if (const auto* sum = dynamic_cast<const Sum*>(tensor.source.get());
      sum != nullptr && sum->addend() == -addend) {
    TensorView view = sum->tensor();
    view.name = tensor.name;
    return view;
  }
  return {tensor.name, DType::kF32, tensor.shape, {}, make_sum(tensor, addend)};
}

TensorView slice_rows(const TensorView& tensor, std::string name, int64_t begin, int64_t end) {
  TensorView part{std::move(name), tensor.dtype, tensor.shape, {}};
  part.shape[0] = end - begin;
  if (tensor.source) {
    part.source = std::make_shared<Slice>(tensor, begin, part.bytes());
  } else {
    const size_t row = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    part.data = tensor.data.subspan(static_cast<size_t>(begin) * row, part.bytes());
  }
  return part;
}

TensorView reordered_rows(const TensorView& tensor, std::span<const int64_t> order) {
  if (tensor.shape.empty() || tensor.shape[0] != std::ssize(order))
    throw Error(ErrorKind::kFormat, "tensor '{}' has {} rows, the configuration says {}",
                printable(tensor.name), tensor.shape.empty() ? 0 : tensor.shape[0], order.size());
  TensorView result{tensor.name, tensor.dtype, tensor.shape, {}};
  result.source = std::make_shared<Reordered>(tensor, order);
  return result;
}

TensorView make_fp8_view(const StoredTensor& values, const StoredTensor* scale,
                         const Fp8Blocks& blocks) {
  const int64_t cols = values.shape.back();
  const int64_t rows = static_cast<int64_t>(values.data.size()) / cols;
  Fp8Scales scales{{1}, {rows, cols}, cols};
  if (scale != nullptr) {
    const std::vector<int64_t>& shape = scale->shape;
    Fp8Blocks& found = scales.blocks;
    if (shape.size() == 1 && shape[0] > 1) found.rows = block_size(rows, shape[0], 1);
    if (shape.size() == 2) {
      found.rows = block_size(rows, shape[0], shape[0] == rows ? 1 : blocks.rows);
      found.cols = block_size(cols, shape[1], blocks.cols);
    }
    if (shape.size() > 2 || found.rows == 0 || found.cols == 0)
      throw Error(ErrorKind::kFormat,
                  "tensor '{}' of shape {} does not fit the scales {} of shape {}",
                  printable(values.name), shape_text(values.shape), printable(scale->name),
                  shape_text(shape));
    scales.values = read_scales(*scale);
  }
  TensorView view{values.name, DType::kF32, values.shape, {}};
  const bool small =
      std::ranges::all_of(scales.values, [](float s) { return std::abs(s) < kScaleLimitFP8; });
  const auto fits = [&](int64_t elements) {
    return values.type == StoredType::kF8_E4M3 && small && values.shape.size() > 1 &&
           cols % elements == 0 && scales.blocks.cols % elements == 0;
  };
  if (fits(128)) {
    view.dtype = DType::kFP8_128;
    view.source = std::make_shared<BlocksFp8<128>>(values, std::move(scales));
  } else if (fits(32)) {
    view.dtype = DType::kFP8_32;
    view.source = std::make_shared<BlocksFp8<32>>(values, std::move(scales));
  } else {
    view.source = std::make_shared<Fp8>(values, std::move(scales));
  }
  return view;
}

}  // namespace veery
