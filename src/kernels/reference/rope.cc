#include <cmath>

#include "kernels/common/rope_angles.h"
#include "kernels/reference/cache_element.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

void rope_angles(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const RopeFrequencies usual(d.as<AnglesAttr>(), d.in[RopeAnglesIn::kDivisors]
                                                      ? d.in[RopeAnglesIn::kDivisors].row<float>(0)
                                                      : nullptr);
  const RopeFrequencies extended(
      d.as<AnglesAttr>(),
      d.in[RopeAnglesIn::kExtended] ? d.in[RopeAnglesIn::kExtended].row<float>(0) : nullptr);
  const Operand& is_extended = d.in[RopeAnglesIn::kIsExtended];
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const double position = *d.in[RopeAnglesIn::kPositions].row<int32_t>(r);
    const RopeFrequencies& frequency =
        is_extended && *is_extended.row<int32_t>(r) != 0 ? extended : usual;
    const double magnitude = frequency.magnitude(position);
    float* out = d.out().row<float>(r);
    for (int i = 0; i < d.out().cols / 2; ++i) {
      out[2 * i] = static_cast<float>(std::cos(position * frequency(i)) * magnitude);
      out[2 * i + 1] = static_cast<float>(std::sin(position * frequency(i)) * magnitude);
    }
  }
}

void position_scale(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<PositionScaleAttr>();
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const auto factor = static_cast<float>(
        position_factor(attr, *d.in[PositionScaleIn::kPositions].row<int32_t>(r)));
    for (int64_t i = 0; i < d.out().cols; ++i)
      d.out().row<float>(r)[i] = d.in[PositionScaleIn::kX].row<float>(r)[i] * factor;
  }
}

struct Rotation {
  int64_t head_dim;
  int64_t dims;
  bool interleaved;
  float sign;
  int64_t begin = 0;
};

// `out` may be `x`.
void rotate(const float* x, const float* angles, const Rotation& how, float* out) {
  for (int64_t i = 0; i < how.dims / 2; ++i) {
    const int64_t first = how.begin + (how.interleaved ? 2 * i : i);
    const int64_t second = first + (how.interleaved ? 1 : how.dims / 2);
    const float cos = angles[2 * i];
    const float sin = how.sign * angles[2 * i + 1];
    const float a = x[first];
    const float b = x[second];
    out[first] = a * cos - b * sin;
    out[second] = a * sin + b * cos;
  }
  for (int64_t i = 0; i < how.begin; ++i) out[i] = x[i];
  for (int64_t i = how.begin + how.dims; i < how.head_dim; ++i) out[i] = x[i];
}

void rope(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<RopeAttr>();
  const Rotation how{d.out().cols / attr.heads, attr.dims, attr.interleaved, attr.sign, attr.begin};
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t c = 0; c < d.out().cols; c += how.head_dim)
      rotate(d.in[RopeIn::kX].row<float>(r) + c, d.in[RopeIn::kAngles].row<float>(r), how,
             d.out().row<float>(r) + c);
}

// Writes one head of row r to its page of the KV cache.
void write_head(const Operand& cache, const RunShape& shape, int64_t r, int64_t head,
                const float* x) {
  const int64_t position = shape.position(r);
  write_cached({cache, page_of(cache, shape, shape.sequence(r), position), head, position}, x);
}

void cache_write(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.in[CacheWriteIn::kState].rows;
  const int64_t head_dim = d.in[CacheWriteIn::kX].cols / heads;
  const Share rows = share(shape.count(d.in[CacheWriteIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t h = 0; h < heads; ++h)
      write_head(d.in[CacheWriteIn::kState], shape, r, h,
                 d.in[CacheWriteIn::kX].row<float>(r) + h * head_dim);
}

void norm_and_rotate(const Operand& norm, const float* x, const float* angles, float eps,
                     const Rotation& how, float* out) {
  if (norm) reference_norm(x, norm.row<float>(0), how.head_dim, eps, out);
  rotate(norm ? out : x, angles, how, out);
}

void qkv_rope(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<QkvRopeAttr>();
  const int64_t n = attr.head_dim;
  const Rotation how{n, attr.dims, attr.interleaved, 1};
  auto* key = reinterpret_cast<float*>(worker.scratch);
  const Share rows = share(shape.count(d.in[QkvRopeIn::kQkv].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* angles = d.in[QkvRopeIn::kAngles].row<float>(r);
    const float* q = d.in[QkvRopeIn::kQkv].row<float>(r);
    const float* k = q + attr.heads * n;
    const float* v = k + attr.kv_heads * n;
    for (int64_t h = 0; h < attr.heads; ++h)
      norm_and_rotate(d.in[QkvRopeIn::kQueryNorm], q + h * n, angles, attr.eps, how,
                      d.out().row<float>(r) + h * n);
    for (int64_t h = 0; h < attr.kv_heads; ++h) {
      norm_and_rotate(d.in[QkvRopeIn::kKeyNorm], k + h * n, angles, attr.eps, how, key);
      write_head(d.in[QkvRopeIn::kKeys], shape, r, h, key);
      write_head(d.in[QkvRopeIn::kValues], shape, r, h, v + h * n);
    }
  }
}

size_t head_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.as<QkvRopeAttr>().head_dim) * sizeof(float);
}

bool takes_angles(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeAnglesIn::kPositions], DType::kI32) &&
         absent_or_matrix(d.in[RopeAnglesIn::kDivisors]) && is_matrix(d.out());
}
bool takes_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeIn::kX]) && is_matrix(d.in[RopeIn::kAngles]) && is_matrix(d.out());
}
bool takes_position_scale(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[PositionScaleIn::kX]) &&
         is_matrix(d.in[PositionScaleIn::kPositions], DType::kI32) && is_matrix(d.out());
}
bool takes_write(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CacheWriteIn::kX]) && is_cache(d.in[CacheWriteIn::kState]);
}
bool takes_qkv(const Dispatch& d, const KernelChoice&) {
  return takes_rope(d, {}) && is_cache(d.in[QkvRopeIn::kKeys]) &&
         is_cache(d.in[QkvRopeIn::kValues]) && absent_or_matrix(d.in[QkvRopeIn::kQueryNorm]) &&
         absent_or_matrix(d.in[QkvRopeIn::kKeyNorm]);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRopeAngles, kRef, takes_angles, {"rope_angles", {rope_angles}}},
    {op::kRope, kRef, takes_rope, {"rope", {rope}}},
    {op::kPositionScale, kRef, takes_position_scale, {"position_scale", {position_scale}}},
    {op::kCacheWrite, kRef, takes_write, {"cache_write", {cache_write}}},
    {op::kQkvRope, kRef, takes_qkv, {"qkv_rope", {qkv_rope}, nullptr, head_bytes}},
};

}  // namespace

KernelRows reference_rope() { return kRows; }

}  // namespace veery
