#include "graph/ops/recurrence_back.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/blocks.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/scan_head.h"

// Derivatives of a scan, in f64: tangents forward, gradients backward. Names are those of ScanAttr;
// D denotes an adjoint, and low = a^T S_before. One position computes
//   y = r / den + bonus v,  r = scale q^T S,  den = max(|scale q^T n|, exp(-m)) + eps
//   S = alpha S_before + gate k v^T + b low  (delta: - gate k low)
// The adjoints are, from the last position to the first,
//   DS += scale q (Dy / den)^T,  Dgate = k^T DS (v - low),  Dlow = b^T DS,
//   DS_before = alpha DS + a Dlow^T,  Dalpha = DS S_before
// and so on. With exponential gates the stabiliser m has a gradient too, which flows to the larger
// of its two arguments; y depends on m only through eps.

namespace veery {
namespace {

using namespace reference;

void scan_tangent(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ScanTangentAttr>();
  const Share items = share(shape.span_count * int64_t{attr.scan.heads}, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    const Span& span = shape.spans[i / attr.scan.heads];
    const Head<Dual> head(d, attr.scan, 0, i % attr.scan.heads, attr.moves);
    HeadMemory<Dual> before = head.empty();
    for (int64_t row = span.first_row; row < span.end_row(); ++row) {
      const Gates<Dual> g = head.gates(row, before.m);
      HeadMemory<Dual> now = head.after(row, g, before);
      for (int64_t v = 0; v < head.values(); ++v)
        d.out().row<float>(row)[head.column(ScanIn::kV, v)] =
            static_cast<float>(head.y(row, g, before, now, v).slope);
      before = std::move(now);
    }
  }
}

/// The inputs of the forward op for which a backward op returns gradients, as its three outputs.
struct Wanted {
  std::array<int, 3> inputs;
};

/// The gradients of one value head. Gradients of inputs that several heads share are accumulated.
class HeadBack {
 public:
  HeadBack(const Dispatch& d, const Wanted& wanted, int64_t head)
      : d_(d),
        attr_(d.as<ScanAttr>()),
        wanted_(wanted),
        head_(d, attr_, ScanBackIn::kFirst, head) {}

  // Sets the gradients of this head to zero.
  void clear(const RunShape& shape) const {
    for (size_t o = 0; o < wanted_.inputs.size(); ++o) {
      const Operand& out = d_.outputs[o];
      const int input = wanted_.inputs[o];
      if (!out || !head_.has(input)) {
        if (out) *out.row<float>(0) = 0;
        continue;
      }
      for (int64_t r = 0; r < shape.count(out.rows); ++r)
        for (int64_t i = 0; i < size_of(input); ++i) out.row<float>(r)[head_.column(input, i)] = 0;
    }
  }

  // Processes one span: stores a state every kScanBackPositions positions (checkpoints), then goes
  // backward and recomputes the states between them.
  void run(const Span& span) {
    std::vector<HeadMemory<double>> borders;
    HeadMemory<double> now = head_.empty();
    for (int64_t row = span.first_row; row < span.end_row(); ++row) {
      if ((row - span.first_row) % kScanBackPositions == 0) borders.push_back(now);
      now = head_.after(row, head_.gates(row, now.m), now);
    }
    later_ = head_.empty();
    for (int64_t chunk = static_cast<int64_t>(borders.size()) - 1; chunk >= 0; --chunk) {
      const int64_t first = span.first_row + chunk * kScanBackPositions;
      const int64_t end = std::min<int64_t>(first + kScanBackPositions, span.end_row());
      std::vector<HeadMemory<double>> states{borders[static_cast<size_t>(chunk)]};
      for (int64_t row = first; row < end; ++row)
        states.push_back(head_.after(row, head_.gates(row, states.back().m), states.back()));
      for (int64_t row = end - 1; row >= first; --row) {
        const auto i = static_cast<size_t>(row - first);
        step(row, states[i], states[i + 1]);
      }
    }
  }

 private:
  int64_t size_of(int input) const {
    if (input == ScanIn::kV || input == ScanIn::kRates) return head_.values();
    if (input == ScanIn::kGate) return 1;
    if (input != ScanIn::kDecay) return head_.keys();
    return attr_.decay == Decay::kOuter ? head_.values() : head_.keys();
  }
  double x(int input, int64_t row, int64_t i = 0) const { return head_.x(input, row, i); }
  void add(int input, int64_t row, int64_t i, double value) const {
    if (!head_.has(input)) return;
    for (size_t o = 0; o < wanted_.inputs.size(); ++o) {
      const Operand& out = d_.outputs[o];
      if (wanted_.inputs[o] == input && out)
        out.row<float>(out.rows == 1 ? 0 : row)[head_.column(input, i)] +=
            static_cast<float>(value);
    }
  }

  // On entry, later_ holds the adjoints of the state after the position; on return, those of the
  // state before it.
  void step(int64_t row, const HeadMemory<double>& before, const HeadMemory<double>& now) {
    gates_ = head_.gates(row, before.m);
    dgate_ = 0;
    dalpha_.assign(static_cast<size_t>(head_.keys() * head_.values()), 0);
    earlier_ = head_.empty();
    read_back(row, before, now);
    bonus_back(row);
    written_back(row, before);
    gates_back(row);
    std::swap(later_, earlier_);
  }

  // Propagates from y to q, to the state that was read, and to the normaliser.
  void read_back(int64_t row, const HeadMemory<double>& before, const HeadMemory<double>& now) {
    const HeadMemory<double>& source = attr_.read_before ? before : now;
    HeadMemory<double>& target = attr_.read_before ? earlier_ : later_;
    const double divisor = head_.divisor(row, now);
    double ddivisor = 0;
    for (int64_t v = 0; v < head_.values(); ++v) {
      const double dy = this->dy(row, v);
      ddivisor -= dy * head_.read(row, source, v) / (divisor * divisor);
      const double dr = attr_.scale * dy / divisor;
      for (int64_t k = 0; k < head_.keys(); ++k) {
        add(ScanIn::kQ, row, k, dr * source.s[head_.index(k, v)]);
        target.s[head_.index(k, v)] += dr * x(ScanIn::kQ, row, k);
      }
    }
    if (!attr_.normaliser) return;
    const double normaliser = head_.normaliser(row, now);
    if (std::fabs(normaliser) < std::exp(-now.m)) {
      later_.m -= ddivisor * std::exp(-now.m);
      return;
    }
    const double dn = attr_.scale * (normaliser < 0 ? -ddivisor : ddivisor);
    for (int64_t k = 0; k < head_.keys(); ++k) {
      add(ScanIn::kQ, row, k, dn * now.n[static_cast<size_t>(k)]);
      later_.n[static_cast<size_t>(k)] += dn * x(ScanIn::kQ, row, k);
    }
  }
  double dy(int64_t row, int64_t v) const {
    return d_.in[ScanBackIn::kDy].row<float>(row)[head_.column(ScanIn::kV, v)];
  }

  void bonus_back(int64_t row) {
    if (!head_.has(ScanIn::kBonus)) return;
    const bool channels = head_.bonus_of_channels();
    const double factor = channels ? gates_.gate * head_.bonus(row) : head_.bonus(row);
    double dfactor = 0;
    for (int64_t v = 0; v < head_.values(); ++v) {
      dfactor += dy(row, v) * x(ScanIn::kV, row, v);
      add(ScanIn::kV, row, v, factor * dy(row, v));
    }
    if (!channels) return add(ScanIn::kBonus, 0, 0, dfactor);
    dgate_ += dfactor * head_.bonus(row);
    for (int64_t k = 0; k < head_.keys(); ++k) {
      const double q = x(ScanIn::kQ, row, k), key = x(ScanIn::kK, row, k);
      const double bonus = x(ScanIn::kBonus, 0, k), d = dfactor * gates_.gate;
      add(ScanIn::kQ, row, k, d * bonus * key);
      add(ScanIn::kK, row, k, d * bonus * q);
      add(ScanIn::kBonus, 0, k, d * q * key);
    }
  }

  // Propagates from the state after the position to the state before it, and to k, v, a, b, decays
  // and gate.
  void written_back(int64_t row, const HeadMemory<double>& before) {
    for (int64_t k = 0; k < head_.keys(); ++k) {
      const double dn = later_.n[static_cast<size_t>(k)];
      dalpha_[head_.index(k, 0)] += dn * before.n[static_cast<size_t>(k)];
      dgate_ += dn * x(ScanIn::kK, row, k);
      add(ScanIn::kK, row, k, dn * gates_.gate);
      earlier_.n[static_cast<size_t>(k)] += gates_.alpha[head_.index(k, 0)] * dn;
    }
    for (int64_t v = 0; v < head_.values(); ++v) column_back(row, before, v);
  }

  void column_back(int64_t row, const HeadMemory<double>& before, int64_t v) {
    const double value = x(ScanIn::kV, row, v);
    const double low = head_.low_rank(row, gates_, before, v);
    const bool delta = attr_.low_rank == LowRank::kDelta;
    double dlow = 0, dvalue = 0;
    for (int64_t k = 0; k < head_.keys(); ++k) {
      const size_t i = head_.index(k, v);
      const double ds = later_.s[i], key = x(ScanIn::kK, row, k);
      dalpha_[i] += ds * before.s[i];
      earlier_.s[i] += gates_.alpha[i] * ds;
      const double written = delta ? value - low : value;
      dgate_ += ds * key * written;
      add(ScanIn::kK, row, k, ds * gates_.gate * written);
      dvalue += ds * gates_.gate * key;
      if (attr_.low_rank != LowRank::kNone) dlow += ds * head_.b(row, gates_, k);
      add(ScanIn::kB, row, k, ds * low);
    }
    add(ScanIn::kV, row, v, dvalue);
    if (attr_.low_rank == LowRank::kNone) return;
    for (int64_t k = 0; k < head_.keys(); ++k) {
      const size_t i = head_.index(k, v);
      earlier_.s[i] += dlow * head_.a(row, gates_, k, v);
      add(ScanIn::kA, row, k, dlow * before.s[i]);
      if (!delta) continue;
      dalpha_[i] += dlow * x(ScanIn::kK, row, k) * before.s[i];
      add(ScanIn::kK, row, k, dlow * gates_.alpha[i] * before.s[i]);
    }
  }

  void gates_back(int64_t row) {
    if (attr_.exponential) return exponential_back(row);
    add(ScanIn::kGate, row, 0, dgate_);
    for (int64_t k = 0; k < head_.keys(); ++k)
      for (int64_t v = 0; v < head_.values(); ++v) {
        const size_t i = head_.index(k, v);
        const double d = dalpha_[i] * gates_.alpha[i];
        if (attr_.decay == Decay::kHead) add(ScanIn::kDecay, row, 0, d);
        if (attr_.decay == Decay::kChannel) add(ScanIn::kDecay, row, k, d);
        if (attr_.decay != Decay::kOuter) continue;
        add(ScanIn::kDecay, row, v, d * x(ScanIn::kRates, k, v));
        add(ScanIn::kRates, k, v, d * x(ScanIn::kDecay, row, v));
      }
  }
  // alpha = exp(before - m), gate = exp(i - m), m = max(before, i).
  void exponential_back(int64_t row) {
    double dbefore = 0;
    for (size_t i = 0; i < dalpha_.size(); ++i) dbefore += dalpha_[i] * gates_.alpha[i];
    double di = dgate_ * gates_.gate;
    const double dm = later_.m - dbefore - di;
    (gates_.before >= x(ScanIn::kGate, row) ? dbefore : di) += dm;
    add(ScanIn::kGate, row, 0, di);
    add(ScanIn::kDecay, row, 0, dbefore);
    earlier_.m = dbefore;
  }

  const Dispatch& d_;
  const ScanAttr& attr_;
  const Wanted& wanted_;
  const Head<double> head_;
  HeadMemory<double> later_, earlier_;
  Gates<double> gates_;
  std::vector<double> dalpha_;  ///< [key size][value size]
  double dgate_ = 0;
};

// Work is split by key heads, so that no two workers write the same gradient.
void scan_back_of(const Wanted& wanted, const Dispatch& d, const RunShape& shape,
                  const Worker& worker) {
  const auto& attr = d.as<ScanAttr>();
  const Share items = share(attr.key_heads, 1, worker);
  for (int64_t key_head = items.begin; key_head < items.end; ++key_head) {
    for (int pass = 0; pass < 2; ++pass)
      for (int32_t head = 0; head < attr.heads; ++head) {
        if (attr.key_head(head) != key_head) continue;
        HeadBack back(d, wanted, head);
        if (pass == 0) back.clear(shape);
        for (int32_t s = 0; pass == 1 && s < shape.span_count; ++s) back.run(shape.spans[s]);
      }
  }
}

constexpr Wanted kInputs{{ScanIn::kQ, ScanIn::kK, ScanIn::kV}};
constexpr Wanted kGates{{ScanIn::kDecay, ScanIn::kGate, ScanIn::kBonus}};
constexpr Wanted kLowRank{{ScanIn::kA, ScanIn::kB, ScanIn::kRates}};

template <const Wanted& wanted>
void scan_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  scan_back_of(wanted, d, shape, worker);
}

void conv1d_back_x(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& weight = d.in[Conv1dBackXIn::kWeight];
  const Share channels = share(d.out().cols, 1, worker);
  for (int32_t s = 0; s < shape.span_count; ++s) {
    const Span& span = shape.spans[s];
    for (int64_t row = span.first_row; row < span.end_row(); ++row)
      for (int64_t c = channels.begin; c < channels.end; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < weight.rows; ++j) {
          const int64_t later = row + weight.rows - 1 - j;
          if (later < span.end_row())
            sum += double{weight.row<float>(j)[c]} * d.in[Conv1dBackXIn::kDy].row<float>(later)[c];
        }
        d.out().row<float>(row)[c] = static_cast<float>(sum);
      }
  }
}

void conv1d_back_w(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t width = d.out().rows;
  const Share channels = share(d.out().cols, 1, worker);
  for (int64_t c = channels.begin; c < channels.end; ++c)
    for (int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (int32_t s = 0; s < shape.span_count; ++s) {
        const Span& span = shape.spans[s];
        for (int64_t row = span.first_row + width - 1 - j; row < span.end_row(); ++row)
          sum += double{d.in[Conv1dBackWIn::kDy].row<float>(row)[c]} *
                 d.in[Conv1dBackWIn::kX].row<float>(row - width + 1 + j)[c];
      }
      d.out().row<float>(j)[c] = static_cast<float>(sum);
    }
}

bool all_matrices(const Dispatch& d, const KernelChoice&) {
  return std::all_of(d.in.begin(), d.in.end(), absent_or_matrix);
}

constexpr KernelRow kRows[] = {
    {op::kScanBack, Target::kReference, all_matrices, {"scan_back", {scan_back<kInputs>}}},
    {op::kScanBackGates,
     Target::kReference,
     all_matrices,
     {"scan_back_gates", {scan_back<kGates>}}},
    {op::kScanBackLowRank,
     Target::kReference,
     all_matrices,
     {"scan_back_low_rank", {scan_back<kLowRank>}}},
    {op::kScanTangent, Target::kReference, all_matrices, {"scan_tangent", {scan_tangent}}},
    {op::kConv1dBackX, Target::kReference, all_matrices, {"conv1d_back_x", {conv1d_back_x}}},
    {op::kConv1dBackW, Target::kReference, all_matrices, {"conv1d_back_w", {conv1d_back_w}}},
};

}  // namespace

KernelRows reference_recurrence_back() { return kRows; }

}  // namespace veery
