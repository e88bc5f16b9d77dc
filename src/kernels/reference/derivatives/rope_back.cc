// Derivatives of RoPE by its angles, and of the angles by their divisors.
#include <algorithm>
#include <cmath>

#include "kernels/common/rope_angles.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// The columns of pair i in a head.
struct Pair {
  int64_t first, second;
};
Pair pair_of(const RopeAttr& attr, int64_t i) {
  const int64_t first = attr.begin + (attr.interleaved ? 2 * i : i);
  return {first, first + (attr.interleaved ? 1 : attr.dims / 2)};
}

// y = (a cos - b sin, a sin + b cos), with sin times the sign of the rotation.
void rope_back_angles(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<RopeAttr>();
  const int64_t size = d.in[RopeBackAnglesIn::kX].cols / attr.heads;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t i = 0; i < attr.dims / 2; ++i) {
      const Pair pair = pair_of(attr, i);
      double cos = 0, sin = 0;
      for (int64_t h = 0; h < attr.heads; ++h) {
        const float* x = d.in[RopeBackAnglesIn::kX].row<float>(r) + h * size;
        const float* dy = d.in[RopeBackAnglesIn::kDy].row<float>(r) + h * size;
        cos += double{dy[pair.first]} * x[pair.first] + double{dy[pair.second]} * x[pair.second];
        sin += double{dy[pair.second]} * x[pair.first] - double{dy[pair.first]} * x[pair.second];
      }
      d.out().row<float>(r)[2 * i] = static_cast<float>(cos);
      d.out().row<float>(r)[2 * i + 1] = static_cast<float>(attr.sign * sin);
    }
}

void rope_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<RopeAttr>();
  const int64_t size = d.out().cols / attr.heads;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* moved = d.in[RopeTangentIn::kTangles].row<float>(r);
    std::fill_n(d.out().row<float>(r), d.out().cols, 0.0F);
    for (int64_t h = 0; h < attr.heads; ++h)
      for (int64_t i = 0; i < attr.dims / 2; ++i) {
        const Pair pair = pair_of(attr, i);
        const float* x = d.in[RopeTangentIn::kX].row<float>(r) + h * size;
        float* out = d.out().row<float>(r) + h * size;
        const float cos = moved[2 * i], sin = attr.sign * moved[2 * i + 1];
        out[pair.first] = x[pair.first] * cos - x[pair.second] * sin;
        out[pair.second] = x[pair.first] * sin + x[pair.second] * cos;
      }
  }
}

// Whether a row takes the divisors of extended sequences.
bool takes_extended(const Dispatch& d, int64_t r) {
  const Operand& is_extended = d.in[RopeAnglesBackIn::kIsExtended];
  return is_extended && *is_extended.row<int32_t>(r) != 0;
}
RopeFrequencies frequencies(const Dispatch& d, bool extended) {
  const Operand& divisors =
      d.in[extended ? RopeAnglesBackIn::kExtended : RopeAnglesBackIn::kDivisors];
  return RopeFrequencies(d.as<AnglesAttr>(), divisors ? divisors.row<float>(0) : nullptr);
}
double position_of(const Dispatch& d, int64_t r) {
  return *d.in[RopeAnglesBackIn::kPositions].row<int32_t>(r);
}

// The derivatives of cos and sin times the magnitude are -sin and cos times it, which `angles` has.
void rope_angles_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& angles = d.in[RopeAnglesBackIn::kAngles];
  const Share pairs = share(angles.cols / 2, 1, worker);
  for (const bool extended : {false, true}) {
    const Operand& out = d.outputs[extended ? 1 : 0];
    if (!out) continue;
    const RopeFrequencies frequency = frequencies(d, extended);
    for (int64_t i = pairs.begin; i < pairs.end; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < shape.count(angles.rows); ++r) {
        if (takes_extended(d, r) != extended) continue;
        const float* angle = angles.row<float>(r) + 2 * i;
        const float* moved = d.in[RopeAnglesBackIn::kDangles].row<float>(r) + 2 * i;
        sum += position_of(d, r) * (double{moved[1]} * angle[0] - double{moved[0]} * angle[1]);
      }
      out.row<float>(0)[i] = static_cast<float>(sum * frequency.slope(static_cast<int>(i)));
    }
  }
}

void rope_angles_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const RopeFrequencies usual = frequencies(d, false), long_ones = frequencies(d, true);
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const bool extended = takes_extended(d, r);
    const Operand& tangent =
        d.in[extended ? RopeAnglesTangentIn::kTextended : RopeAnglesTangentIn::kTdivisors];
    const float* angles = d.in[RopeAnglesTangentIn::kAngles].row<float>(r);
    float* out = d.out().row<float>(r);
    for (int i = 0; i < d.out().cols / 2; ++i) {
      const double slope = (extended ? long_ones : usual).slope(i);
      const double moved = tangent ? position_of(d, r) * slope * tangent.row<float>(0)[i] : 0;
      out[2 * i] = static_cast<float>(-angles[2 * i + 1] * moved);
      out[2 * i + 1] = static_cast<float>(angles[2 * i] * moved);
    }
  }
}

bool takes_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.in[1]) && is_matrix(d.out());
}
bool takes_angles(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeAnglesBackIn::kAngles]) &&
         is_matrix(d.in[RopeAnglesBackIn::kPositions], DType::kI32) &&
         is_matrix(d.in[RopeAnglesBackIn::kDivisors]) &&
         absent_or_matrix(d.in[RopeAnglesBackIn::kExtended]);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRopeBackAngles, kRef, takes_rope, {"rope_back_angles", {rope_back_angles}}},
    {op::kRopeTangent, kRef, takes_rope, {"rope_tangent", {rope_tangent}}},
    {op::kRopeAnglesBack, kRef, takes_angles, {"rope_angles_back", {rope_angles_back}}},
    {op::kRopeAnglesTangent, kRef, takes_angles, {"rope_angles_tangent", {rope_angles_tangent}}},
};

}  // namespace

KernelRows reference_rope_back() { return kRows; }

}  // namespace veery
