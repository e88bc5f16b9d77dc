// Mixtures of experts (kMoe).
#include <algorithm>

#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

float biased_dot(const Dispatch& d, int weight, int64_t row, const float* x, float* buffer) {
  decode_row(d.in[weight], row, buffer);
  float sum = 0;
  for (int64_t i = 0; i < d.in[weight].cols; ++i) sum += x[i] * buffer[i];
  const Operand& bias = d.in[weight + MoeIn::kGateBias - MoeIn::kGate];
  return bias ? sum + bias.row<float>(0)[row] : sum;
}

// Adds the gated output of expert e to row r.
void add_expert(const Dispatch& d, int64_t r, int64_t e, float* scratch) {
  const auto& attr = d.as<MoeAttr>();
  const int64_t hidden = d.in[MoeIn::kDown].cols;
  const float gate = d.in[MoeIn::kGates].row<float>(r)[e];
  const float* x = d.in[MoeIn::kX].row<float>(r);
  float* h = scratch;
  float* buffer = scratch + hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    float u = biased_dot(d, MoeIn::kUp, e * hidden + j, x, buffer);
    if (attr.gate_input) u *= gate;
    if (!d.in[MoeIn::kGate]) {
      h[j] = activated(u, attr.activation);
      continue;
    }
    float g = biased_dot(d, MoeIn::kGate, e * hidden + j, x, buffer);
    if (attr.gate_input) g *= gate;
    h[j] = gated(attr, g, u);
  }
  float* out = d.out().row<float>(r);
  for (int64_t n = 0; n < d.out().cols; ++n)
    out[n] +=
        (attr.gate_input ? 1 : gate) * biased_dot(d, MoeIn::kDown, e * d.out().cols + n, h, buffer);
}

void moe(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<MoeAttr>();
  const Share rows = share(shape.count(d.in[MoeIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    std::fill_n(out, d.out().cols, 0.0F);
    int left = attr.used;
    for (int64_t e = 0; e < attr.experts && left > 0; ++e) {
      if (d.in[MoeIn::kGates].row<float>(r)[e] == 0) continue;
      add_expert(d, r, e, reinterpret_cast<float*>(worker.scratch));
      --left;
    }
    if (d.in[MoeIn::kResidual])
      for (int64_t n = 0; n < d.out().cols; ++n) out[n] += d.in[MoeIn::kResidual].row<float>(r)[n];
  }
}

size_t moe_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[MoeIn::kDown].cols +
                             std::max(d.in[MoeIn::kX].cols, d.in[MoeIn::kDown].cols)) *
         sizeof(float);
}

bool takes_moe(const Dispatch& d, const KernelChoice&) {
  for (int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    const bool absent = i == MoeIn::kGate && !d.in[i];
    if ((!absent && !is_weight(d.in[i])) || !absent_or_matrix(d.in[i + 3])) return false;
  }
  return is_matrix(d.in[MoeIn::kX]) && is_matrix(d.in[MoeIn::kGates]) &&
         absent_or_matrix(d.in[MoeIn::kResidual]) && is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    {op::kMoe, Target::kReference, takes_moe, {"moe", {moe}, nullptr, moe_bytes}},
};

}  // namespace

KernelRows reference_moe() { return kRows; }

}  // namespace veery
