#include "file/gguf/q2_groups.h"

#include <cstring>
#include <memory>
#include <utility>

#include "dtype/affine.h"

namespace veery::gguf {
namespace {

constexpr AffineFormat kGroups{2, kQ2Elements, DType::kF16};
constexpr uint16_t kSign = 0x8000;  // sign bit of an f16

class Q2Groups final : public RowSource {
 public:
  explicit Q2Groups(TensorView tensor)
      : data_(tensor.data), blocks_(static_cast<size_t>(tensor.columns() / kQ2Elements)) {}

  void read(int64_t first, int64_t last, std::byte* out) const override {
    const std::byte* in = data_.data() + static_cast<size_t>(first) * blocks_ * kQ2Bytes;
    const size_t count = static_cast<size_t>(last - first) * blocks_;
    for (size_t b = 0; b < count; ++b, in += kQ2Bytes, out += kGroups.bytes()) {
      uint16_t d;
      std::memcpy(&d, in, sizeof d);
      const uint16_t scales[] = {d, static_cast<uint16_t>(d ^ kSign)};
      std::memcpy(out, scales, sizeof scales);
      std::memcpy(out + kGroups.codes_at(), in + sizeof d, kQ2Bytes - sizeof d);
    }
  }

 private:
  std::span<const std::byte> data_;
  size_t blocks_;  // blocks per row
};

}  // namespace

DType q2_group_type() { return affine_type(kGroups); }

TensorView q2_groups(TensorView tensor) {
  tensor.source = std::make_shared<Q2Groups>(tensor);
  tensor.data = {};
  return tensor;
}

}  // namespace veery::gguf
