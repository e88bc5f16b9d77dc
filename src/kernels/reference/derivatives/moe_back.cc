// Derivatives of mixtures of experts, in f64. For a row with gate c and expert e:
//   g0 = gate x + bias, u0 = up x + bias (times c if MoeAttr::gate_input),
//   h = gated(g, u), o = down h + bias, y = sum over e of c o (or o).
#include <algorithm>
#include <vector>

#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

using Numbers = std::vector<double>;

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
  return sum;
}

// Returns whether the expert takes part in a row, as in the forward kernel.
bool uses(const MoeAttr& attr, const float* gates, int64_t e) {
  return gates[e] != 0 &&
         std::count_if(gates, gates + e, [](float gate) { return gate != 0; }) < attr.used;
}

/// An expert, for all rows. The weights and biases have the indices of MoeIn in all ops.
class Expert {
 public:
  Expert(const Dispatch& d, const MoeAttr& attr, int64_t e)
      : d_(d),
        attr_(attr),
        expert_(e),
        in_(d.in[MoeIn::kUp].cols),
        hidden_(d.in[MoeIn::kDown].cols),
        out_(d.in[MoeIn::kDown].rows / attr.experts),
        row_(static_cast<size_t>(std::max(in_, hidden_))) {}

  int64_t in() const { return in_; }
  int64_t hidden() const { return hidden_; }
  int64_t out() const { return out_; }
  bool has(int input) const { return static_cast<bool>(d_.in[static_cast<size_t>(input)]); }
  int64_t rows_of(int weight) const { return weight == MoeIn::kDown ? out_ : hidden_; }

  /// Returns row i of the expert's matrix; the buffer is overwritten by the next call.
  const float* row(const Operand& weight, int64_t i) {
    decode_row(weight, expert_ * rows_of_operand(weight) + i, row_.data());
    return row_.data();
  }
  const float* row(int weight, int64_t i) { return row(d_.in[static_cast<size_t>(weight)], i); }
  double bias(int weight, int64_t i) const {
    const Operand& bias = d_.in[static_cast<size_t>(weight + MoeIn::kGateBias - MoeIn::kGate)];
    return bias ? bias.row<float>(0)[expert_ * rows_of(weight) + i] : 0;
  }

  /// Computes g0 and u0 of a row; g0 stays empty if experts have no gate projection.
  void project(const float* x, Numbers& g0, Numbers& u0) {
    for (const int weight : {MoeIn::kGate, MoeIn::kUp}) {
      Numbers& to = weight == MoeIn::kGate ? g0 : u0;
      to.assign(has(weight) ? static_cast<size_t>(hidden_) : 0, 0);
      for (size_t j = 0; j < to.size(); ++j) {
        const auto index = static_cast<int64_t>(j);
        to[j] = dot(x, row(weight, index), in_) + bias(weight, index);
      }
    }
  }
  /// The hidden value and its slopes by g and u; without a gate projection, g is not read.
  struct Hidden {
    double h, by_g, by_u;
  };
  Hidden hidden_of(double g, double u) const {
    const auto gate = static_cast<float>(g), up = static_cast<float>(u);
    if (!has(MoeIn::kGate))
      return {activated(up, attr_.activation), 0, activated_slope(up, attr_.activation)};
    const GatedSlopes slopes = gated_slopes(attr_, gate, up);
    return {gated(attr_, gate, up), slopes.by_gate, slopes.by_up};
  }

 private:
  int64_t rows_of_operand(const Operand& weight) const { return weight.rows / attr_.experts; }

  const Dispatch& d_;
  const MoeAttr& attr_;
  const int64_t expert_, in_, hidden_, out_;
  std::vector<float> row_;
};

/// The backward pass of one row through an expert.
struct RowBack {
  Numbers g0, u0, h, dg0, du0;  ///< [hidden]; dg0 and du0 are gradients of g0 and u0
  double dgate = 0;             ///< gradient of the row's gate

  void run(Expert& expert, const MoeAttr& attr, const Dispatch& d, int64_t r, float gate) {
    expert.project(d.in[MoeBackIn::kX].row<float>(r), g0, u0);
    const bool outer = !attr.gate_input;
    const double inside = outer ? 1 : gate;
    const auto n = static_cast<size_t>(expert.hidden());
    Numbers by_g(n), by_u(n), dh(n);
    h.resize(n);
    for (size_t j = 0; j < n; ++j) {
      const auto hidden = expert.hidden_of(g0.empty() ? 0 : inside * g0[j], inside * u0[j]);
      h[j] = hidden.h, by_g[j] = hidden.by_g, by_u[j] = hidden.by_u;
    }
    dgate = 0;
    const float* dy = d.in[MoeBackIn::kDy].row<float>(r);
    for (int64_t i = 0; i < expert.out(); ++i) {
      const float* w = expert.row(MoeIn::kDown, i);
      double o = expert.bias(MoeIn::kDown, i);
      for (size_t j = 0; j < n; ++j) {
        o += w[j] * h[j];
        dh[j] += double{w[j]} * dy[i] * (outer ? gate : 1);
      }
      if (outer) dgate += dy[i] * o;
    }
    dg0.assign(g0.size(), 0);
    du0.assign(n, 0);
    for (size_t j = 0; j < n; ++j) {
      if (!g0.empty()) dg0[j] = dh[j] * by_g[j];
      du0[j] = dh[j] * by_u[j];
      if (outer) continue;
      if (!g0.empty()) dgate += dg0[j] * g0[j], dg0[j] *= gate;
      dgate += du0[j] * u0[j];
      du0[j] *= gate;
    }
  }
};

void moe_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<MoeAttr>();
  const Operand &dx = d.outputs[0], &dgates = d.outputs[1];
  RowBack back;
  const Share rows = share(shape.count(d.in[MoeBackIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* gates = d.in[MoeBackIn::kGates].row<float>(r);
    Numbers sums(static_cast<size_t>(d.in[MoeBackIn::kX].cols));
    if (dgates) std::fill_n(dgates.row<float>(r), attr.experts, 0.0F);
    for (int64_t e = 0; e < attr.experts; ++e) {
      if (!uses(attr, gates, e)) continue;
      Expert expert(d, attr, e);
      back.run(expert, attr, d, r, gates[e]);
      if (dgates) dgates.row<float>(r)[e] = static_cast<float>(back.dgate);
      for (const int weight : {MoeIn::kGate, MoeIn::kUp}) {
        const Numbers& moved = weight == MoeIn::kGate ? back.dg0 : back.du0;
        for (size_t j = 0; j < moved.size() && dx; ++j) {
          const float* w = expert.row(weight, static_cast<int64_t>(j));
          for (size_t i = 0; i < sums.size(); ++i) sums[i] += moved[j] * w[i];
        }
      }
    }
    for (size_t i = 0; i < sums.size() && dx; ++i)
      dx.row<float>(r)[i] = static_cast<float>(sums[i]);
  }
}

// Adds the products of `moved` and x to the rows of an expert's matrix, which begin at `first`.
template <typename X>
void add_outer(const Operand& to, int64_t first, const Numbers& moved, const X* x) {
  for (size_t i = 0; i < moved.size() && to; ++i)
    for (int32_t c = 0; c < to.cols; ++c)
      to.row<float>(first + static_cast<int64_t>(i))[c] += static_cast<float>(moved[i] * x[c]);
}
void add_row(const Operand& to, int64_t first, const Numbers& moved) {
  for (size_t i = 0; i < moved.size() && to; ++i)
    to.row<float>(0)[first + static_cast<int64_t>(i)] += static_cast<float>(moved[i]);
}

// Sets the gradients of one expert to zero; the gradient of an absent input is one zero.
void clear(const Dispatch& d, const Expert& expert, int64_t e, bool biases) {
  for (int i = 0; i < 3; ++i) {
    const Operand& out = d.outputs[static_cast<size_t>(i)];
    if (!out) continue;
    const int weight = MoeIn::kGate + i;
    const int64_t rows = expert.rows_of(weight);
    if (!expert.has(biases ? weight + 3 : weight)) {
      if (e == 0) *out.row<float>(0) = 0;
    } else if (biases) {
      std::fill_n(out.row<float>(0) + e * rows, rows, 0.0F);
    } else {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(out.row<float>(e * rows + r), out.cols, 0.0F);
    }
  }
}

// Work is split by experts, so that no two workers write the same gradient.
template <bool kBiases>
void moe_back_weights(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<MoeAttr>();
  RowBack back;
  const Share experts = share(attr.experts, 1, worker);
  for (int64_t e = experts.begin; e < experts.end; ++e) {
    Expert expert(d, attr, e);
    clear(d, expert, e, kBiases);
    for (int64_t r = 0; r < shape.count(d.in[MoeBackIn::kX].rows); ++r) {
      const float* gates = d.in[MoeBackIn::kGates].row<float>(r);
      if (!uses(attr, gates, e)) continue;
      back.run(expert, attr, d, r, gates[e]);
      const float* dy = d.in[MoeBackIn::kDy].row<float>(r);
      Numbers dout(dy, dy + expert.out());
      for (double& each : dout) each *= attr.gate_input ? 1 : gates[e];
      const int64_t hidden = e * expert.hidden(), out = e * expert.out();
      if constexpr (kBiases) {
        if (expert.has(MoeIn::kGateBias)) add_row(d.outputs[0], hidden, back.dg0);
        if (expert.has(MoeIn::kUpBias)) add_row(d.outputs[1], hidden, back.du0);
        if (expert.has(MoeIn::kDownBias)) add_row(d.outputs[2], out, dout);
      } else {
        const float* x = d.in[MoeBackIn::kX].row<float>(r);
        add_outer(d.outputs[0], hidden, back.dg0, x);
        add_outer(d.outputs[1], hidden, back.du0, x);
        add_outer(d.outputs[2], out, dout, back.h.data());
      }
    }
  }
}

/// The tangent of one row through an expert.
class RowTangent {
 public:
  RowTangent(const Dispatch& d, Expert& expert, int64_t e, int64_t r)
      : d_(d),
        attr_(d.as<MoeTangentAttr>().moe),
        moves_(d.as<MoeTangentAttr>().moves),
        expert_(expert),
        e_(e),
        r_(r) {}

  // Adds the tangent of the expert's output to `sums`.
  void run(Numbers& sums) {
    const double gate = d_.in[MoeIn::kGates].row<float>(r_)[e_];
    const double moved_gate = moves_ == MoeIn::kGates ? tangent(r_)[e_] : 0;
    const bool outer = !attr_.gate_input;
    const double inside = outer ? 1 : gate, moved_inside = outer ? 0 : moved_gate;
    Numbers g0, u0;
    expert_.project(x(), g0, u0);
    const auto n = static_cast<size_t>(expert_.hidden());
    std::vector<float> h(n), th(n);
    for (size_t j = 0; j < n; ++j) {
      const double g = g0.empty() ? 0 : g0[j];
      const auto hidden = expert_.hidden_of(inside * g, inside * u0[j]);
      double moved = hidden.by_u * (inside * projected(MoeIn::kUp, j) + moved_inside * u0[j]);
      if (!g0.empty())
        moved += hidden.by_g * (inside * projected(MoeIn::kGate, j) + moved_inside * g);
      h[j] = static_cast<float>(hidden.h);
      th[j] = static_cast<float>(moved);
    }
    for (int64_t i = 0; i < expert_.out(); ++i) {
      const float* w = expert_.row(MoeIn::kDown, i);
      const auto hidden = static_cast<int64_t>(n);
      const double o = dot(w, h.data(), hidden) + expert_.bias(MoeIn::kDown, i);
      double to = dot(w, th.data(), hidden) + moved_bias(MoeIn::kDown, i);
      if (moves_ == MoeIn::kDown)
        to += dot(expert_.row(d_.in[MoeTangentIn::kTangent], i), h.data(), hidden);
      sums[static_cast<size_t>(i)] += outer ? gate * to + moved_gate * o : to;
    }
  }

 private:
  const float* x() const { return d_.in[MoeIn::kX].row<float>(r_); }
  const float* tangent(int64_t row) const { return d_.in[MoeTangentIn::kTangent].row<float>(row); }
  double moved_bias(int weight, int64_t i) const {
    return moves_ == weight + MoeIn::kGateBias - MoeIn::kGate
               ? tangent(0)[e_ * expert_.rows_of(weight) + i]
               : 0;
  }
  // Returns the tangent of element j of g0 or u0.
  double projected(int weight, size_t j) {
    const auto i = static_cast<int64_t>(j);
    if (moves_ == MoeIn::kX) return dot(tangent(r_), expert_.row(weight, i), expert_.in());
    if (moves_ == weight)
      return dot(x(), expert_.row(d_.in[MoeTangentIn::kTangent], i), expert_.in());
    return moved_bias(weight, i);
  }

  const Dispatch& d_;
  const MoeAttr& attr_;
  const int moves_;
  Expert& expert_;
  const int64_t e_, r_;
};

void moe_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const MoeAttr& attr = d.as<MoeTangentAttr>().moe;
  const Share rows = share(shape.count(d.in[MoeTangentIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    Numbers sums(static_cast<size_t>(d.out().cols));
    for (int64_t e = 0; e < attr.experts; ++e) {
      if (!uses(attr, d.in[MoeTangentIn::kGates].row<float>(r), e)) continue;
      Expert expert(d, attr, e);
      RowTangent(d, expert, e, r).run(sums);
    }
    for (size_t i = 0; i < sums.size(); ++i) d.out().row<float>(r)[i] = static_cast<float>(sums[i]);
  }
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  for (const int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    const Operand& weight = d.in[static_cast<size_t>(i)];
    if ((weight && !is_weight(weight)) || !absent_or_matrix(d.in[static_cast<size_t>(i + 3)]))
      return false;
  }
  return is_matrix(d.in[0]) && is_matrix(d.in[1]);
}
bool accepts_back(const Dispatch& d, const KernelChoice& choice) {
  return accepts(d, choice) && is_matrix(d.in[MoeBackIn::kGates]);
}
bool accepts_tangent(const Dispatch& d, const KernelChoice& choice) {
  return accepts(d, choice) && is_weight(d.in[MoeTangentIn::kTangent]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kMoeBack, kRef, accepts_back, {"moe_back", {moe_back}}},
    {op::kMoeBackW, kRef, accepts_back, {"moe_back_w", {moe_back_weights<false>}}},
    {op::kMoeBackBias, kRef, accepts_back, {"moe_back_bias", {moe_back_weights<true>}}},
    {op::kMoeTangent, kRef, accepts_tangent, {"moe_tangent", {moe_tangent}}},
};

}  // namespace

KernelRows reference_moe_back() { return kRows; }

}  // namespace veery
