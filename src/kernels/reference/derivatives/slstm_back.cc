// Derivatives of sLSTM, in f64. y does not depend on the stabiliser m: c and n have the same factor
// exp(-m) of their values without it. m is therefore a constant here.
#include <algorithm>
#include <vector>

#include "graph/ops/recurrence_back.h"
#include "kernels/reference/dual.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

using namespace reference;

/// One channel at one position: pre-activations of the gates i, f, z and o, and the state.
template <typename T>
struct Cell {
  T gates[kSlstmGates];
  T y = 0, c = 0, n = 0;
  double m = 0;
};
template <typename T>
using Cells = std::vector<Cell<T>>;  ///< the channels of a head

/// The inputs of one head. `first` is the index of the first slstm input in the dispatch; the
/// tangents of Dual numbers follow the inputs.
template <typename T>
class Head {
 public:
  Head(const Dispatch& d, int first, int64_t channels, int64_t head)
      : d_(d),
        first_(first),
        channels_(channels),
        size_(channels / d.as<SlstmAttr>().heads),
        begin_(head * size_) {}

  int64_t size() const { return size_; }
  int64_t column(int64_t gate, int64_t i) const { return gate * channels_ + begin_ + i; }
  int64_t channel(int64_t i) const { return begin_ + i; }
  T x(int input, int64_t row, int64_t column) const {
    const double value = operand(input).template row<float>(row)[column];
    if constexpr (std::is_same_v<T, Dual>) {
      const Operand& tangent = operand(SlstmTangentIn::kTx + input);
      return {value, tangent ? tangent.template row<float>(row)[column] : 0.0F};
    } else {
      return value;
    }
  }

  /// Returns the cells at a row after those before it; `before` is empty at the first position.
  Cells<T> after(int64_t row, const Cells<T>& before) const {
    Cells<T> now(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; ++i) {
      Cell<T>& cell = now[static_cast<size_t>(i)];
      for (int64_t g = 0; g < kSlstmGates; ++g) {
        T sum = x(SlstmIn::kX, row, column(g, i)) + x(SlstmIn::kBias, 0, column(g, i));
        for (size_t j = 0; j < before.size(); ++j)
          sum = sum + x(SlstmIn::kRecurrent, static_cast<int64_t>(j), column(g, i)) * before[j].y;
        cell.gates[g] = sum;
      }
      advance(cell, before.empty() ? nullptr : &before[static_cast<size_t>(i)]);
    }
    return now;
  }

 private:
  static void advance(Cell<T>& cell, const Cell<T>* before) {
    const T keep = before != nullptr ? T(before->m) + log_logistic(cell.gates[1]) : T(0);
    cell.m = before != nullptr ? std::max(value_of(cell.gates[0]), value_of(keep))
                               : value_of(cell.gates[0]);
    const T write = exponential(cell.gates[0] - T(cell.m));
    cell.c = write * hyperbolic_tangent(cell.gates[2]);
    cell.n = write;
    if (before != nullptr) {
      const T kept = exponential(keep - T(cell.m));
      cell.c = cell.c + kept * before->c;
      cell.n = cell.n + kept * before->n;
    }
    cell.y = logistic(cell.gates[3]) * (cell.c / cell.n);
  }
  const Operand& operand(int input) const { return d_.in[static_cast<size_t>(first_ + input)]; }

  const Dispatch& d_;
  const int first_;
  const int64_t channels_, size_, begin_;
};

void slstm_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<SlstmAttr>().heads;
  const Share items = share(shape.span_count * heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const Span& span = shape.spans[item / heads];
    const Head<Dual> head(d, SlstmTangentIn::kX, d.out().cols, item % heads);
    Cells<Dual> cells;
    for (int64_t row = span.first_row; row < span.end_row(); ++row) {
      cells = head.after(row, cells);
      for (int64_t i = 0; i < head.size(); ++i)
        d.out().row<float>(row)[head.channel(i)] =
            static_cast<float>(cells[static_cast<size_t>(i)].y.slope);
    }
  }
}

/// The gradients of one head, over all spans.
class HeadBack {
 public:
  HeadBack(const Dispatch& d, int64_t head)
      : d_(d),
        head_(d, SlstmBackIn::kX, d.in[SlstmBackIn::kDy].cols, head),
        drecurrent_(static_cast<size_t>(head_.size() * head_.size() * kSlstmGates)),
        dbias_(static_cast<size_t>(head_.size() * kSlstmGates)) {}

  void run(const Span& span) {
    std::vector<Cells<double>> cells{{}};
    for (int64_t row = span.first_row; row < span.end_row(); ++row)
      cells.push_back(head_.after(row, cells.back()));
    const auto n = static_cast<size_t>(head_.size());
    dy_.assign(n, 0), dc_.assign(n, 0), dn_.assign(n, 0);
    for (int64_t i = span.rows - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      step(span.first_row + i, cells[at], cells[at + 1]);
    }
  }

  // Writes the sums over all positions.
  void store() const {
    const Operand &drecurrent = d_.outputs[1], &dbias = d_.outputs[2];
    for (int64_t g = 0; g < kSlstmGates; ++g)
      for (int64_t i = 0; i < head_.size(); ++i) {
        const int64_t column = head_.column(g, i);
        if (dbias) dbias.row<float>(0)[column] = static_cast<float>(dbias_[index(g, i)]);
        for (int64_t j = 0; j < head_.size() && drecurrent; ++j)
          drecurrent.row<float>(j)[column] = static_cast<float>(drecurrent_[index(g, i, j)]);
      }
  }

 private:
  size_t index(int64_t gate, int64_t i) const {
    return static_cast<size_t>(gate * head_.size() + i);
  }
  size_t index(int64_t gate, int64_t i, int64_t j) const {
    return index(gate, i) * static_cast<size_t>(head_.size()) + static_cast<size_t>(j);
  }

  // On entry, dy_, dc_ and dn_ hold the adjoints that come from later positions; on return, those
  // of the state before the position.
  void step(int64_t row, const Cells<double>& before, const Cells<double>& now) {
    const auto n = static_cast<size_t>(head_.size());
    std::vector<double> dgates(n * kSlstmGates), earlier(n);
    for (size_t i = 0; i < n; ++i)
      cell_back(row, i, before.empty() ? Cell<double>{} : before[i], now[i], before.empty(),
                dgates);
    for (int64_t g = 0; g < kSlstmGates; ++g)
      for (int64_t i = 0; i < head_.size(); ++i) {
        const double dgate = dgates[index(g, i)];
        if (d_.outputs[0])
          d_.outputs[0].row<float>(row)[head_.column(g, i)] = static_cast<float>(dgate);
        dbias_[index(g, i)] += dgate;
        for (size_t j = 0; j < before.size(); ++j) {
          const auto r = static_cast<int64_t>(j);
          drecurrent_[index(g, i, r)] += dgate * before[j].y;
          earlier[j] += dgate * head_.x(SlstmIn::kRecurrent, r, head_.column(g, i));
        }
      }
    dy_ = std::move(earlier);
  }

  void cell_back(int64_t row, size_t i, const Cell<double>& before, const Cell<double>& now,
                 bool begins, std::vector<double>& dgates) {
    const auto channel = static_cast<int64_t>(i);
    const double dy = dy_[i] + d_.in[SlstmBackIn::kDy].row<float>(row)[head_.channel(channel)];
    const double open = logistic(now.gates[3]), ratio = now.c / now.n;
    const double dc = dc_[i] + dy * open / now.n;
    const double dn = dn_[i] - dy * open * ratio / now.n;
    const double write = std::exp(now.gates[0] - now.m), z = std::tanh(now.gates[2]);
    const double keep = begins ? 0 : std::exp(before.m + log_logistic(now.gates[1]) - now.m);
    dgates[index(0, channel)] = (dc * z + dn) * write;
    dgates[index(1, channel)] = (dc * before.c + dn * before.n) * keep * logistic(-now.gates[1]);
    dgates[index(2, channel)] = dc * write * (1 - z * z);
    dgates[index(3, channel)] = dy * ratio * open * (1 - open);
    dc_[i] = dc * keep;
    dn_[i] = dn * keep;
  }

  const Dispatch& d_;
  const Head<double> head_;
  std::vector<double> dy_, dc_, dn_;
  std::vector<double> drecurrent_;  ///< [gate][channel][channel before]
  std::vector<double> dbias_;       ///< [gate][channel]
};

void slstm_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share heads = share(d.as<SlstmAttr>().heads, 1, worker);
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    HeadBack back(d, head);
    for (int32_t s = 0; s < shape.span_count; ++s) back.run(shape.spans[s]);
    back.store();
  }
}

bool all_matrices(const Dispatch& d, const KernelChoice&) {
  return std::all_of(d.in.begin(), d.in.end(), absent_or_matrix);
}

constexpr KernelRow kRows[] = {
    {op::kSlstmBack, Target::kReference, all_matrices, {"slstm_back", {slstm_back}}},
    {op::kSlstmTangent, Target::kReference, all_matrices, {"slstm_tangent", {slstm_tangent}}},
};

}  // namespace

KernelRows reference_slstm_back() { return kRows; }

}  // namespace veery
