#include "kernels/common/tensor_rope.h"

#include <cmath>

#include "dtype/half.h"

namespace veery {
namespace {

double read(const std::byte* data, ElementType type, int64_t at) {
  switch (type) {
    case ElementType::kF16: return f16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]);
    case ElementType::kBF16: return bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]);
    case ElementType::kF32: return reinterpret_cast<const float*>(data)[at];
    default: return reinterpret_cast<const double*>(data)[at];
  }
}
void write(std::byte* data, ElementType type, int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  switch (type) {
    case ElementType::kF16: reinterpret_cast<uint16_t*>(data)[at] = f32_to_f16(rounded); break;
    case ElementType::kBF16: reinterpret_cast<uint16_t*>(data)[at] = f32_to_bf16(rounded); break;
    case ElementType::kF32: reinterpret_cast<float*>(data)[at] = rounded; break;
    default: reinterpret_cast<double*>(data)[at] = value;
  }
}

int64_t offset(const RopeHeads& of, int64_t batch, int64_t token, int64_t head) {
  return batch * of.batch_stride + token * of.token_stride + head * of.head_stride;
}

}  // namespace

void reference_rope(const RopeProblem& p, const RopeTable& table) {
  std::vector<double> row(static_cast<size_t>(p.head_dim));
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t t = 0; t < p.tokens; ++t)
      for (int64_t h = 0; h < p.heads; ++h) {
        const int64_t from = offset(p.in, b, t, h), to = offset(p.out, b, t, h);
        for (int64_t i = 0; i < p.head_dim; ++i)
          row[static_cast<size_t>(i)] = read(p.in.data, p.type, from + i);
        for (int64_t i = 0; i < table.pairs(); ++i) {
          const auto pair = static_cast<size_t>(i);
          const double position = p.positions[table.axis[pair]][b * p.tokens + t];
          const double angle = (p.back ? -position : position) * table.frequency[pair];
          const double cos = std::cos(angle) * table.magnitude;
          const double sin = std::sin(angle) * table.magnitude;
          double& first = row[static_cast<size_t>(i * table.step)];
          double& second = row[static_cast<size_t>(i * table.step + table.distance)];
          const double x = first, y = second;
          first = x * cos - y * sin;
          second = x * sin + y * cos;
        }
        for (int64_t i = 0; i < p.head_dim; ++i)
          write(p.out.data, p.type, to + i, row[static_cast<size_t>(i)]);
      }
}

}  // namespace veery
