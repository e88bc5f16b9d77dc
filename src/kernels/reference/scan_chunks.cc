#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/reference/scan_head.h"

// The chunkwise parallel form of a scan (Yang et al., arXiv:2312.06635 and arXiv:2412.06464; with a
// general low-rank term as in arXiv:2503.14456; with exponential gates as in arXiv:2405.04517). Let
// L_t be the sum of log alpha from the first position of a chunk to t, S0 the state before the
// chunk, and u_t = a_t^T S_(t-1):
//   S_t = e^(L_t) S0 + sum_{s <= t} e^(L_t - L_s) (b_s u_s + gate_s k_s v_s)
//   u_t = a_t^T e^(L_(t-1)) S0 + sum_{s < t} a_t^T e^(L_(t-1) - L_s) (b_s u_s + gate_s k_s v_s)
// The matrices of dot products between positions are computed once per chunk, u by forward
// substitution, and everything else as products of these with values. All exponents are <= 0, so
// channel-wise decays do not need smaller chunks. With exponential gates m_t is the largest
// exponent.

namespace veery {
namespace {

using namespace reference;

/// The dot products and decays between the positions of a chunk, for one value head.
class Chunk {
 public:
  /// `column`: the value column whose decay applies. `before`: y reads the state before its
  /// position.
  Chunk(const Head<double>& head, const ScanAttr& attr, const Share& rows, double m0,
        int64_t column, bool before)
      : head_(head),
        attr_(attr),
        first_(rows.begin),
        n_(rows.end - rows.begin),
        before_(before),
        decay_(static_cast<size_t>((n_ + 1) * head.keys()), 0.0),
        m_(static_cast<size_t>(n_ + 1), m0) {
    sum_decays(column);
    if (attr.exponential) find_largest();
    products();
  }

  double m(int64_t t) const { return m_[static_cast<size_t>(t + 1)]; }
  double end() const { return m(n_ - 1); }
  // Returns the (stabilised) input gate of a position.
  double gate(int64_t t) const { return written(t + 1, t); }

  /// Returns q^T S of one column with these values, and replaces s, the state before the chunk, by
  /// the state after it.
  std::vector<double> read(const std::vector<double>& values, std::vector<double>& s,
                           bool low_rank) const {
    const std::vector<double> low = low_rank ? solve(values, s) : values;
    std::vector<double> r(static_cast<size_t>(n_), 0.0);
    for (int64_t t = 0; t < n_; ++t) {
      double& sum = r[static_cast<size_t>(t)];
      for (int64_t k = 0; k < head_.keys(); ++k) sum += q(t, k) * carried(read_at(t), k) * at(s, k);
      for (int64_t j = 0; j < read_at(t); ++j) {
        sum += at(qk_, t, j) * at(values, j);
        if (low_rank) sum += at(qb_, t, j) * at(low, j);
      }
    }
    for (int64_t k = 0; k < head_.keys(); ++k) {
      double sum = carried(n_, k) * at(s, k);
      for (int64_t j = 0; j < n_; ++j) {
        sum += kept(n_, j, k) * written(n_, j) * key(j, k) * at(values, j);
        if (low_rank) sum += kept(n_, j, k) * b(j, k) * at(low, j);
      }
      s[static_cast<size_t>(k)] = sum;
    }
    return r;
  }

 private:
  static double at(const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; }
  double at(const std::vector<double>& v, int64_t t, int64_t j) const {
    return v[static_cast<size_t>(t * n_ + j)];
  }
  // Returns the number of positions of the chunk that the state read by position t includes.
  int64_t read_at(int64_t t) const { return before_ ? t : t + 1; }
  double q(int64_t t, int64_t k) const { return head_.x(ScanIn::kQ, first_ + t, k); }
  double key(int64_t t, int64_t k) const { return head_.x(ScanIn::kK, first_ + t, k); }
  double input_gate(int64_t t) const {
    return head_.has(ScanIn::kGate) ? head_.x(ScanIn::kGate, first_ + t) : 1;
  }
  double a(int64_t t, int64_t k) const {
    if (attr_.low_rank == LowRank::kGeneral) return head_.x(ScanIn::kA, first_ + t, k);
    return std::exp(decay(t + 1, k) - decay(t, k)) * key(t, k);
  }
  double b(int64_t t, int64_t k) const {
    if (attr_.low_rank == LowRank::kGeneral) return head_.x(ScanIn::kB, first_ + t, k);
    return -input_gate(t) * key(t, k);
  }

  // Returns the sum of log alpha over the first `count` positions.
  double decay(int64_t count, int64_t k) const {
    return decay_[static_cast<size_t>(count * head_.keys() + k)];
  }
  // Returns the factor of the state before the chunk in the state after `count` positions.
  double carried(int64_t count, int64_t k) const {
    return std::exp(decay(count, k) + m_.front() - at(m_, count));
  }
  // Returns the factor of the update of position j in the state after `count` positions.
  double kept(int64_t count, int64_t j, int64_t k) const {
    return attr_.exponential ? 1 : std::exp(decay(count, k) - decay(j + 1, k));
  }
  // Returns the input gate of position j. An exponential gate includes the decay until `count`,
  // which all channels share.
  double written(int64_t count, int64_t j) const {
    if (!attr_.exponential) return input_gate(j);
    return std::exp(decay(count, 0) - decay(j + 1, 0) + input_gate(j) - at(m_, count));
  }

  void sum_decays(int64_t column) {
    const int64_t keys = head_.keys();
    for (int64_t t = 0; t < n_; ++t)
      for (int64_t k = 0; k < keys; ++k)
        decay_[static_cast<size_t>((t + 1) * keys + k)] =
            decay(t, k) + head_.log_alpha(first_ + t, k, column);
  }
  void find_largest() {
    for (int64_t count = 1; count <= n_; ++count) {
      double largest = decay(count, 0) + m_.front();
      for (int64_t j = 0; j < count; ++j)
        largest = std::max(largest, decay(count, 0) - decay(j + 1, 0) + input_gate(j));
      m_[static_cast<size_t>(count)] = largest;
    }
  }

  void products() {
    const bool low_rank = attr_.low_rank != LowRank::kNone;
    for (auto* matrix : {&qk_, &qb_, &ak_, &ab_}) matrix->assign(static_cast<size_t>(n_ * n_), 0.0);
    for (int64_t t = 0; t < n_; ++t)
      for (int64_t j = 0; j <= t; ++j) {
        const auto i = static_cast<size_t>(t * n_ + j);
        for (int64_t k = 0; k < head_.keys(); ++k) {
          if (j < read_at(t)) {
            const double left = kept(read_at(t), j, k);
            qk_[i] += q(t, k) * left * written(read_at(t), j) * key(j, k);
            if (low_rank) qb_[i] += q(t, k) * left * b(j, k);
          }
          if (!low_rank || j == t) continue;
          const double left = a(t, k) * kept(t, j, k);
          ak_[i] += left * written(t, j) * key(j, k);
          ab_[i] += left * b(j, k);
        }
      }
  }

  // Computes u of one column by forward substitution.
  std::vector<double> solve(const std::vector<double>& values, const std::vector<double>& s) const {
    std::vector<double> u(static_cast<size_t>(n_), 0.0);
    for (int64_t t = 0; t < n_; ++t) {
      double& sum = u[static_cast<size_t>(t)];
      for (int64_t k = 0; k < head_.keys(); ++k) sum += a(t, k) * carried(t, k) * at(s, k);
      for (int64_t j = 0; j < t; ++j)
        sum += at(ab_, t, j) * at(u, j) + at(ak_, t, j) * at(values, j);
    }
    return u;
  }

  const Head<double>& head_;
  const ScanAttr& attr_;
  const int64_t first_, n_;
  const bool before_;
  std::vector<double> decay_;              ///< [positions + 1][key size]
  std::vector<double> m_;                  ///< [positions + 1]
  std::vector<double> qk_, qb_, ak_, ab_;  ///< [positions][positions]
};

/// One value head of one span.
class ChunkedHead {
 public:
  ChunkedHead(const Dispatch& d, int64_t head)
      : d_(d), attr_(d.as<ScanChunksAttr>().scan), head_(d, attr_, 0, head) {}

  void run(const Span& span) {
    states_.assign(static_cast<size_t>(head_.values()),
                   std::vector<double>(static_cast<size_t>(head_.keys()), 0.0));
    normaliser_.assign(static_cast<size_t>(head_.keys()), 0.0);
    m_ = 0;
    const int64_t each = d_.as<ScanChunksAttr>().positions;
    for (int64_t row = span.first_row; row < span.end_row(); row += each)
      chunk({row, std::min<int64_t>(row + each, span.end_row())});
  }

 private:
  void chunk(const Share& rows) {
    const Chunk after(head_, attr_, rows, m_, 0, false);
    const std::vector<double> divisors = divisors_of(after, rows);
    const Chunk before(head_, attr_, rows, m_, 0, attr_.read_before);
    for (int64_t v = 0; v < head_.values(); ++v) {
      std::vector<double> values;
      for (int64_t row = rows.begin; row < rows.end; ++row)
        values.push_back(head_.x(ScanIn::kV, row, v));
      auto& state = states_[static_cast<size_t>(v)];
      const bool low_rank = attr_.low_rank != LowRank::kNone;
      const std::vector<double> r =
          attr_.decay == Decay::kOuter
              ? Chunk(head_, attr_, rows, m_, v, attr_.read_before).read(values, state, low_rank)
              : before.read(values, state, low_rank);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const auto t = static_cast<size_t>(row - rows.begin);
        const double y = attr_.scale * r[t] / divisors[t] + bonus(after, rows, row) * values[t];
        d_.out().row<float>(row)[head_.column(ScanIn::kV, v)] = static_cast<float>(y);
      }
    }
    m_ = after.end();
  }

  // Returns the divisors of y. The normaliser is computed as a value column of ones.
  std::vector<double> divisors_of(const Chunk& chunk, const Share& rows) {
    std::vector<double> all(static_cast<size_t>(rows.end - rows.begin), 1.0);
    if (!attr_.normaliser) return all;
    const std::vector<double> sums = chunk.read(all, normaliser_, false);
    for (size_t t = 0; t < all.size(); ++t)
      all[t] =
          std::max(std::fabs(attr_.scale * sums[t]), std::exp(-chunk.m(static_cast<int64_t>(t)))) +
          attr_.eps;
    return all;
  }

  double bonus(const Chunk& chunk, const Share& rows, int64_t row) const {
    if (!head_.has(ScanIn::kBonus)) return 0;
    return head_.bonus(row) * (head_.bonus_of_channels() ? chunk.gate(row - rows.begin) : 1);
  }

  const Dispatch& d_;
  const ScanAttr& attr_;
  const Head<double> head_;
  std::vector<std::vector<double>> states_;  ///< [value size][key size]
  std::vector<double> normaliser_;           ///< [key size]
  double m_ = 0;
};

void scan_chunks(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<ScanChunksAttr>().scan.heads;
  const Share items = share(shape.span_count * heads, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i)
    ChunkedHead(d, i % heads).run(shape.spans[i / heads]);
}

bool all_matrices(const Dispatch& d, const KernelChoice&) {
  return std::all_of(d.in.begin(), d.in.end(), absent_or_matrix);
}

constexpr KernelRow kRows[] = {
    {op::kScanChunks, Target::kReference, all_matrices, {"scan_chunks", {scan_chunks}}}};

}  // namespace

KernelRows reference_scan_chunks() { return kRows; }

}  // namespace veery
