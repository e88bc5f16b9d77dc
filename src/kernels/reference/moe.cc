// Expert routing (kRoute) and mixtures of experts (kMoe).
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Returns e^x, computed in f64 and rounded. It does not use the math library, so that the choice of
// experts is the same on every machine: x = n log 2 + r, and a polynomial in r (error below 1e-14)
// that the GPU kernels evaluate in the same order.
float exp_rounded(float x) {
  if (std::isnan(x)) return x;
  const float in = std::clamp(x, -104.0F, 89.0F);
  const auto n = static_cast<int>(std::nearbyint(in * 1.44269504F));
  const double r = (in - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 39916800;
  for (const double term : {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                            1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
    p = p * r + term;
  return static_cast<float>(std::ldexp(p, n));
}

// Computes the routing weights of a row: softmax or sigmoid of the scores.
void find_worth(const RouteAttr& attr, const float* scores, int64_t n, float* worth) {
  if (attr.sigmoid) {
    for (int64_t e = 0; e < n; ++e) worth[e] = 1 / (1 + exp_rounded(-scores[e]));
    return;
  }
  const float largest = *std::max_element(scores, scores + n);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += worth[e] = exp_rounded(scores[e] - largest);
  const auto inverse = static_cast<float>(1 / sum);
  for (int64_t e = 0; e < n; ++e) worth[e] *= inverse;
}

// Returns the index of the largest element, the lowest one on ties.
int64_t best_of(const float* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (x[i] > x[best]) best = i;
  return best;
}

// Excludes all experts except those of the best groups (sets their merit to -infinity). `sorted`
// and `of_group` are buffers of n floats.
void keep_best_groups(const RouteAttr& attr, int64_t n, float* merit, float* sorted,
                      float* of_group) {
  const int64_t size = n / attr.groups;
  for (int64_t g = 0; g < attr.groups; ++g) {
    std::copy_n(merit + g * size, size, sorted);
    std::partial_sort(sorted, sorted + attr.group_best, sorted + size, std::greater<>());
    of_group[g] = 0;
    for (int i = 0; i < attr.group_best; ++i) of_group[g] += sorted[i];
  }
  for (int kept = 0; kept < attr.groups_used; ++kept)
    of_group[best_of(of_group, attr.groups)] = kNever;
  for (int64_t g = 0; g < attr.groups; ++g)
    if (of_group[g] != kNever) std::fill_n(merit + g * size, size, kNever);
}

// Routing with RouteAttr::jitter. `left` is a buffer of n floats.
void route_near(const RouteAttr& attr, const float* scores, int64_t n, float* left, float* gates) {
  std::copy_n(scores, n, left);
  std::fill_n(gates, n, 0.0F);
  for (int i = 0; i < attr.used; ++i) {
    const int64_t best = best_of(left, n);
    const float most = left[best];
    double sum = 0;
    for (int64_t e = 0; e < n; ++e) {
      const bool far = (most - left[e]) / std::max(std::abs(left[e]), most) > 2 * attr.jitter;
      if (left[e] != kNever && !far) sum += exp_rounded(left[e] - most);
    }
    gates[best] = static_cast<float>(1 / sum);
    left[best] = kNever;
  }
}

void route_row(const RouteAttr& attr, const float* scores, const float* bias, int64_t n,
               float* buffer, float* gates) {
  if (attr.jitter > 0) return route_near(attr, scores, n, buffer, gates);
  float* worth = buffer;
  float* merit = buffer + n;
  find_worth(attr, scores, n, worth);
  for (int64_t e = 0; e < n; ++e) merit[e] = worth[e] + (bias != nullptr ? bias[e] : 0);
  if (attr.groups > 1) keep_best_groups(attr, n, merit, buffer + 2 * n, buffer + 3 * n);
  std::fill_n(gates, n, 0.0F);
  float sum = 0;
  for (int i = 0; i < attr.used; ++i) {
    const int64_t e = best_of(merit, n);
    merit[e] = kNever;
    gates[e] = worth[e];
    sum += worth[e];
  }
  const float factor = attr.normalise ? attr.scale / std::max(sum, 1e-20F) : attr.scale;
  for (int64_t e = 0; e < n; ++e) gates[e] *= factor;
}

void route(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.in[RouteIn::kScores].rows), 1, worker);
  const float* bias = d.in[RouteIn::kBias] ? d.in[RouteIn::kBias].row<float>(0) : nullptr;
  for (int64_t r = rows.begin; r < rows.end; ++r)
    route_row(d.as<RouteAttr>(), d.in[RouteIn::kScores].row<float>(r), bias,
              d.in[RouteIn::kScores].cols, reinterpret_cast<float*>(worker.scratch),
              d.out().row<float>(r));
}

size_t route_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[RouteIn::kScores].cols) * 4 * sizeof(float);
}

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

bool takes_route(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RouteIn::kScores]) && absent_or_matrix(d.in[RouteIn::kBias]) &&
         is_matrix(d.out());
}
bool takes_moe(const Dispatch& d, const KernelChoice&) {
  for (int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    const bool absent = i == MoeIn::kGate && !d.in[i];
    if ((!absent && !is_weight(d.in[i])) || !absent_or_matrix(d.in[i + 3])) return false;
  }
  return is_matrix(d.in[MoeIn::kX]) && is_matrix(d.in[MoeIn::kGates]) &&
         absent_or_matrix(d.in[MoeIn::kResidual]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRoute, kRef, takes_route, {"route", {route}, nullptr, route_bytes}},
    {op::kMoe, kRef, takes_moe, {"moe", {moe}, nullptr, moe_bytes}},
};

}  // namespace

KernelRows reference_moe() { return kRows; }

}  // namespace veery
