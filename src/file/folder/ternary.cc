#include "file/folder/ternary.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "dtype/blocks.h"
#include "dtype/half.h"

namespace veery {
namespace {

constexpr int64_t kBlock = 256;  // elements of a TQ2_0 block
constexpr int64_t kPerByte = 4;

std::string text_of(const Json& config, const char* key) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return {};
  const auto value = quantization->find(key);
  return value != quantization->end() && value->is_string() ? value->get<std::string>() : "";
}

class Ternary : public RowSource {
 public:
  Ternary(const StoredTensor& codes, float scale)
      : data_(codes.data), rows_(codes.shape[0]), cols_(codes.shape[1]), scale_(scale) {}

 protected:
  // Returns the code of row `r`: 0, 1 or 2; 3 is not used by BitNet.
  int code(int64_t r, int64_t c) const {
    const auto byte = static_cast<int>(data_[static_cast<size_t>(r % rows_ * cols_ + c)]);
    return byte >> (2 * (r / rows_)) & 3;
  }
  int64_t cols() const { return cols_; }
  float scale() const { return scale_; }

 private:
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t r = first; r < last; ++r)
      for (int64_t c = 0; c < cols_; ++c, out += sizeof(float)) {
        const float value = scale_ * static_cast<float>(code(r, c) - 1);
        std::memcpy(out, &value, sizeof value);
      }
  }

  std::span<const std::byte> data_;
  int64_t rows_, cols_;  // of the packed tensor
  float scale_;
};

class TernaryBlocks final : public Ternary {
 public:
  using Ternary::Ternary;

 private:
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t r = first; r < last; ++r)
      for (int64_t begin = 0; begin < cols(); begin += kBlock, out += sizeof(BlockTQ2_0)) {
        BlockTQ2_0 block{};
        block.d = f32_to_f16(scale());
        for (int64_t i = 0; i < kBlock; ++i) {
          const int64_t byte = i / 128 * 32 + i % 32;
          block.qs[byte] |= static_cast<uint8_t>(code(r, begin + i) << (2 * (i % 128 / 32)));
        }
        std::memcpy(out, &block, sizeof block);
      }
  }
};

}  // namespace

bool has_ternary_weights(const Json& config) {
  if (text_of(config, "quant_method") != "bitnet") return false;
  if (const std::string mode = text_of(config, "quantization_mode"); mode == "online")
    throw Error(ErrorKind::kUnsupported,
                "config.json: quantization_mode is 'online', expected packed weights");
  return true;
}

TensorView make_ternary_view(const StoredTensor& codes, const StoredTensor& scale,
                             const Json& config) {
  const std::optional<DType> type = to_dtype(scale.type);
  if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1 || !type ||
      scale.data.size() != byte_size(*type, 1) || !info(*type).decodable)
    throw Error(ErrorKind::kFormat,
                "tensor '{}' has {} dimensions and a scale of {} bytes, expected a matrix and one "
                "number",
                printable(codes.name), codes.shape.size(), scale.data.size());
  float factor = 0;
  decode(*type, scale.data, {&factor, 1});
  if (text_of(config, "linear_class") != "autobitlinear") factor = 1 / factor;
  if (!std::isfinite(factor))
    throw Error(ErrorKind::kFormat, "tensor '{}' has a scale that is not finite",
                printable(codes.name));
  const bool blocks = codes.shape[1] % kBlock == 0 && f16_to_f32(f32_to_f16(factor)) == factor;
  TensorView view{codes.name,
                  blocks ? DType::kTQ2_0 : DType::kF32,
                  {kPerByte * codes.shape[0], codes.shape[1]},
                  {}};
  if (blocks)
    view.source = std::make_shared<TernaryBlocks>(codes, factor);
  else
    view.source = std::make_shared<Ternary>(codes, factor);
  return view;
}

}  // namespace veery
