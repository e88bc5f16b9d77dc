// Expert routing (kRoute) and its derivatives.
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

// With RouteAttr::jitter: whether an expert takes part in the softmax of the best remaining one.
// `left` is its score, -infinity if it was selected before.
bool is_near(const RouteAttr& attr, float left, float most) {
  const bool far = (most - left) / std::max(std::abs(left), most) > 2 * attr.jitter;
  return left != kNever && !far;
}

// Routing with RouteAttr::jitter: calls select(best, sum) for each expert that is selected, with
// the scores that are left in `left`, a buffer of n floats, and the sum of their softmax.
template <typename Select>
void each_near(const RouteAttr& attr, const float* scores, int64_t n, float* left,
               const Select& select) {
  std::copy_n(scores, n, left);
  for (int i = 0; i < attr.used; ++i) {
    const int64_t best = best_of(left, n);
    double sum = 0;
    for (int64_t e = 0; e < n; ++e)
      if (is_near(attr, left[e], left[best])) sum += exp_rounded(left[e] - left[best]);
    select(best, sum);
    left[best] = kNever;
  }
}

void route_near(const RouteAttr& attr, const float* scores, int64_t n, float* left, float* gates) {
  std::fill_n(gates, n, 0.0F);
  each_near(attr, scores, n, left,
            [&](int64_t best, double sum) { gates[best] = static_cast<float>(1 / sum); });
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

// Derivatives of a row. With the worth s of an expert, the sum S of s over the selected ones and
// gate_e = f s_e, f = scale / S (or scale):
//   tgate_e = f (ts_e - s_e / S sum ts),  ts = s (t - sum s t) for softmax, s (1 - s) t for
//   sigmoid,
// sums over S being over the selected experts. The selection is constant.
class RouteRow {
 public:
  RouteRow(const RouteAttr& attr, const float* scores, const float* bias, int64_t n, float* buffer)
      : attr_(attr), scores_(scores), n_(n), buffer_(buffer), gates_(buffer + 4 * n) {
    route_row(attr, scores, bias, n, buffer, gates_);
    find_worth(attr, scores, n, worth());
    for (int64_t e = 0; e < n; ++e)
      if (selected(e)) sum_ += worth()[e];
    normalised_ = attr.normalise && sum_ > 1e-20;
    factor_ = attr.normalise ? attr.scale / std::max(sum_, 1e-20) : attr.scale;
  }

  // Writes the tangent of the gates for that of the scores.
  void forward(const float* tangent, float* out) const {
    std::fill_n(out, n_, 0.0F);
    if (attr_.jitter > 0) {
      each_near(attr_, scores_, n_, buffer_, [&](int64_t best, double sum) {
        out[best] = static_cast<float>((tangent[best] - mean_near(best, sum, tangent)) / sum);
      });
      return;
    }
    const double mean = attr_.sigmoid ? 0 : mean_of(tangent, [](int64_t) { return true; });
    const auto moved = [&](int64_t e) { return slope(e) * (tangent[e] - mean); };
    double all = 0;
    for (int64_t e = 0; e < n_ && normalised_; ++e)
      if (selected(e)) all += moved(e) / sum_;
    for (int64_t e = 0; e < n_; ++e)
      if (selected(e)) out[e] = static_cast<float>(factor_ * (moved(e) - worth()[e] * all));
  }

  // Writes the gradient of the scores for that of the gates.
  void backward(const float* dgates, float* out) const {
    std::fill_n(out, n_, 0.0F);
    if (attr_.jitter > 0) {
      each_near(attr_, scores_, n_, buffer_, [&](int64_t best, double sum) {
        const double p = dgates[best] / sum;
        for (int64_t e = 0; e < n_; ++e)
          if (is_near(attr_, buffer_[e], buffer_[best]))
            out[e] -= static_cast<float>(p * exp_rounded(buffer_[e] - buffer_[best]) / sum);
        out[best] += static_cast<float>(p);
      });
      return;
    }
    const auto chosen = [&](int64_t e) { return selected(e); };
    const double all = normalised_ ? mean_of(dgates, chosen) / sum_ : 0;
    const auto dworth = [&](int64_t e) { return selected(e) ? factor_ * (dgates[e] - all) : 0; };
    double mean = 0;
    for (int64_t e = 0; e < n_ && !attr_.sigmoid; ++e) mean += worth()[e] * dworth(e);
    for (int64_t e = 0; e < n_; ++e) out[e] = static_cast<float>(slope(e) * (dworth(e) - mean));
  }

 private:
  float* worth() const { return buffer_; }
  bool selected(int64_t e) const { return gates_[e] != 0; }
  // The derivative of the worth by its score, with the others constant up to their sum.
  double slope(int64_t e) const {
    const double s = worth()[e];
    return attr_.sigmoid ? s * (1 - s) : s;
  }
  // Returns the sum of worth times x.
  template <typename Takes>
  double mean_of(const float* x, const Takes& takes) const {
    double sum = 0;
    for (int64_t e = 0; e < n_; ++e)
      if (takes(e)) sum += double{worth()[e]} * x[e];
    return sum;
  }
  double mean_near(int64_t best, double sum, const float* x) const {
    double mean = 0;
    for (int64_t e = 0; e < n_; ++e)
      if (is_near(attr_, buffer_[e], buffer_[best]))
        mean += exp_rounded(buffer_[e] - buffer_[best]) / sum * x[e];
    return mean;
  }

  const RouteAttr& attr_;
  const float* scores_;
  int64_t n_;
  float* buffer_;  ///< [4 n]: the worths, or the scores that are left
  float* gates_;
  double sum_ = 0, factor_ = 1;
  bool normalised_ = false;
};

template <bool kForward>
void route_derivative(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& scores = d.in[RouteBackIn::kScores];
  const Share rows = share(shape.count(scores.rows), 1, worker);
  const float* bias = d.in[RouteBackIn::kBias] ? d.in[RouteBackIn::kBias].row<float>(0) : nullptr;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const RouteRow row(d.as<RouteAttr>(), scores.row<float>(r), bias, scores.cols,
                       reinterpret_cast<float*>(worker.scratch));
    const float* moved = d.in[RouteBackIn::kDgates].row<float>(r);
    if (kForward)
      row.forward(moved, d.out().row<float>(r));
    else
      row.backward(moved, d.out().row<float>(r));
  }
}

size_t derivative_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[RouteIn::kScores].cols) * 5 * sizeof(float);
}

bool takes_route(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RouteIn::kScores]) && absent_or_matrix(d.in[RouteIn::kBias]) &&
         absent_or_matrix(d.in[RouteBackIn::kDgates]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kRoute, kRef, takes_route, {"route", {route}, nullptr, route_bytes}},
    {op::kRouteBack,
     kRef,
     takes_route,
     {"route_back", {route_derivative<false>}, nullptr, derivative_bytes}},
    {op::kRouteTangent,
     kRef,
     takes_route,
     {"route_tangent", {route_derivative<true>}, nullptr, derivative_bytes}},
};

}  // namespace

KernelRows reference_route() { return kRows; }

}  // namespace veery
