// angles.h: angles of rotary position embeddings, where double is known; elsewhere the host finds
// them.
#pragma once
#include "kernels/gpu/dialect/angles_arguments.h"

namespace veery::gpu {

struct SinCos {
  double sin, cos;
};
// As kernels/cpu/rows/rope.cc.
VEERY_GPU SinCos sin_cos(double x) {
  constexpr double kRound = 6755399441055744.0;
  const double shifted = x * 0.63661977236758134308 + kRound;
  const double n = shifted - kRound;
  const int64_t quadrant = bits_of(shifted);
  double r = fma(n, -1.57079632679489655800, x);
  r = fma(n, -6.12323399573676603587e-17, r);
  const double z = r * r;
  double s = fma(z, -1.0 / 39916800, 1.0 / 362880);
  s = fma(z, s, -1.0 / 5040);
  s = fma(z, s, 1.0 / 120);
  s = fma(z, s, -1.0 / 6);
  s = fma(z * r, s, r);
  double c = fma(z, 1.0 / 479001600, -1.0 / 3628800);
  c = fma(z, c, 1.0 / 40320);
  c = fma(z, c, -1.0 / 720);
  c = fma(z, c, 1.0 / 24);
  c = fma(z, c, -0.5);
  c = fma(z, c, 1.0);
  const double first = (quadrant & 1) != 0 ? c : s;
  const double second = (quadrant & 1) != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}
VEERY_GPU void angles(const AnglesArguments& a, const BlockAt& here = own_block()) {
  wait_for_inputs();
  const int64_t r = here.x;
  if (r >= a.run.count(a.out.rows)) return;
  const int32_t sequence = a.run.spans[a.run.span_of[r]].sequence;
  const double* frequency =
      a.extended != nullptr && a.run.extended[sequence] != 0 ? a.extended : a.usual;
  const double position = a.positions[r];
  const double magnitude =
      a.magnitudes == nullptr
          ? a.magnitude
          : a.magnitudes[static_cast<int64_t>((position + a.shift) / a.context)];
  for (int i = thread(); i < a.out.cols / 2; i += threads()) {
    const SinCos at = sin_cos(position * frequency[i]);
    a.out.row(r)[2 * i] = static_cast<float>(at.cos * magnitude);
    a.out.row(r)[2 * i + 1] = static_cast<float>(at.sin * magnitude);
  }
}

}  // namespace veery::gpu
