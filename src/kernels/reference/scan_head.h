// scan_head.h: the inputs of a scan head and the update of one position, on f64 numbers or on dual
// numbers.
#pragma once
#include <type_traits>
#include <vector>

#include "graph/ops/recurrence_back.h"
#include "kernels/common/blocks.h"
#include "kernels/dispatch.h"
#include "kernels/reference/dual.h"

namespace veery::reference {

/// The state of a head.
template <typename T>
struct HeadMemory {
  std::vector<T> s;  ///< [key size][value size]
  std::vector<T> n;  ///< [key size]
  T m = 0;
};

/// Decays and gates of a position.
template <typename T>
struct Gates {
  std::vector<T> alpha;  ///< [key size][value size]; columns are equal except with kOuter
  T gate = 1;
  T before = 0;  ///< m before the position plus log alpha
  T m = 0;
};

/// The inputs of one value head. `first` is the index of the first scan input in the dispatch, and
/// `moves` the input that has a tangent (-1: none).
template <typename T>
class Head {
 public:
  Head(const Dispatch& d, const ScanAttr& attr, int first, int64_t head, int moves = -1)
      : d_(d),
        attr_(attr),
        first_(first),
        moves_(moves),
        head_(head),
        keys_(d.in[at(ScanIn::kK)].cols / attr.key_heads),
        values_(d.in[at(ScanIn::kV)].cols / attr.heads) {}

  int64_t keys() const { return keys_; }
  int64_t values() const { return values_; }
  bool has(int input) const { return static_cast<bool>(d_.in[at(input)]); }
  bool bonus_of_channels() const { return d_.in[at(ScanIn::kBonus)].cols != attr_.heads; }

  // Returns the column of an input that holds element i of this head.
  int64_t column(int input, int64_t i) const {
    switch (input) {
      case ScanIn::kQ:
      case ScanIn::kK: return attr_.key_head(static_cast<int32_t>(head_)) * keys_ + i;
      case ScanIn::kV:
      case ScanIn::kRates: return head_ * values_ + i;
      case ScanIn::kA:
      case ScanIn::kB: return head_ * keys_ + i;
      case ScanIn::kGate: return head_;
      case ScanIn::kBonus: return bonus_of_channels() ? head_ * keys_ + i : head_;
      default:
        return attr_.decay == Decay::kHead      ? head_
               : attr_.decay == Decay::kChannel ? head_ * keys_ + i
                                                : head_ * values_ + i;
    }
  }
  // Returns element i of an input. For kRates, `row` is a key channel.
  T x(int input, int64_t row, int64_t i = 0) const {
    const auto c = static_cast<size_t>(column(input, i));
    const double value = row_or_only(d_.in[at(input)], row)[c];
    if constexpr (std::is_same_v<T, Dual>)
      return {value, input == moves_ ? row_or_only(d_.in[ScanTangentIn::kTangent], row)[c] : 0.0};
    else
      return value;
  }
  T log_alpha(int64_t row, int64_t k, int64_t v) const {
    switch (attr_.decay) {
      case Decay::kNone: return 0;
      case Decay::kHead: return x(ScanIn::kDecay, row);
      case Decay::kChannel: return x(ScanIn::kDecay, row, k);
      case Decay::kOuter: return x(ScanIn::kDecay, row, v) * x(ScanIn::kRates, k, v);
    }
    return 0;
  }

  HeadMemory<T> empty() const {
    return {std::vector<T>(static_cast<size_t>(keys_ * values_)),
            std::vector<T>(static_cast<size_t>(keys_)), T(0)};
  }

  Gates<T> gates(int64_t row, const T& m) const {
    Gates<T> g;
    if (has(ScanIn::kGate)) g.gate = x(ScanIn::kGate, row);
    g.alpha.resize(static_cast<size_t>(keys_ * values_));
    if (attr_.exponential) {
      const T log_gate = g.gate;
      g.before = m + log_alpha(row, 0, 0);
      g.m = larger(g.before, log_gate);
      g.gate = exponential(log_gate - g.m);
      std::fill(g.alpha.begin(), g.alpha.end(), exponential(g.before - g.m));
      return g;
    }
    for (int64_t k = 0; k < keys_; ++k)
      for (int64_t v = 0; v < values_; ++v)
        g.alpha[index(k, v)] = v > 0 && attr_.decay != Decay::kOuter
                                   ? g.alpha[index(k, 0)]
                                   : exponential(log_alpha(row, k, v));
    return g;
  }

  // Returns a^T S_before of one column.
  T low_rank(int64_t row, const Gates<T>& g, const HeadMemory<T>& before, int64_t v) const {
    T sum = 0;
    if (attr_.low_rank == LowRank::kNone) return sum;
    for (int64_t k = 0; k < keys_; ++k) sum = sum + a(row, g, k, v) * before.s[index(k, v)];
    return sum;
  }
  T a(int64_t row, const Gates<T>& g, int64_t k, int64_t v) const {
    return attr_.low_rank == LowRank::kDelta ? g.alpha[index(k, v)] * x(ScanIn::kK, row, k)
                                             : x(ScanIn::kA, row, k);
  }
  T b(int64_t row, const Gates<T>& g, int64_t k) const {
    return attr_.low_rank == LowRank::kDelta ? T(0) - g.gate * x(ScanIn::kK, row, k)
                                             : x(ScanIn::kB, row, k);
  }

  HeadMemory<T> after(int64_t row, const Gates<T>& g, const HeadMemory<T>& before) const {
    HeadMemory<T> next = before;
    next.m = g.m;
    for (int64_t k = 0; k < keys_; ++k) {
      T& n = next.n[static_cast<size_t>(k)];
      n = g.alpha[index(k, 0)] * n + g.gate * x(ScanIn::kK, row, k);
    }
    for (int64_t v = 0; v < values_; ++v) {
      const T low = low_rank(row, g, before, v);
      for (int64_t k = 0; k < keys_; ++k) {
        T& s = next.s[index(k, v)];
        s = g.alpha[index(k, v)] * s + g.gate * x(ScanIn::kK, row, k) * x(ScanIn::kV, row, v);
        if (attr_.low_rank != LowRank::kNone) s = s + b(row, g, k) * low;
      }
    }
    return next;
  }

  // Returns scale q^T n.
  T normaliser(int64_t row, const HeadMemory<T>& now) const {
    T sum = 0;
    for (int64_t k = 0; k < keys_; ++k)
      sum = sum + x(ScanIn::kQ, row, k) * now.n[static_cast<size_t>(k)];
    return T(attr_.scale) * sum;
  }
  T divisor(int64_t row, const HeadMemory<T>& now) const {
    if (!attr_.normaliser) return 1;
    return larger(magnitude(normaliser(row, now)), exponential(T(0) - now.m)) + T(attr_.eps);
  }
  // Returns scale q^T S of one column.
  T read(int64_t row, const HeadMemory<T>& memory, int64_t v) const {
    T sum = 0;
    for (int64_t k = 0; k < keys_; ++k) sum = sum + x(ScanIn::kQ, row, k) * memory.s[index(k, v)];
    return T(attr_.scale) * sum;
  }
  // Returns q^T (bonus * k) for a bonus per channel, else the bonus.
  T bonus(int64_t row) const {
    if (!bonus_of_channels()) return x(ScanIn::kBonus, 0);
    T sum = 0;
    for (int64_t k = 0; k < keys_; ++k)
      sum = sum + x(ScanIn::kQ, row, k) * x(ScanIn::kBonus, 0, k) * x(ScanIn::kK, row, k);
    return sum;
  }
  T y(int64_t row, const Gates<T>& g, const HeadMemory<T>& before, const HeadMemory<T>& now,
      int64_t v) const {
    const T sum = read(row, attr_.read_before ? before : now, v) / divisor(row, now);
    if (!has(ScanIn::kBonus)) return sum;
    const T factor = bonus_of_channels() ? g.gate * bonus(row) : bonus(row);
    return sum + factor * x(ScanIn::kV, row, v);
  }

  size_t index(int64_t k, int64_t v) const { return static_cast<size_t>(k * values_ + v); }

 private:
  size_t at(int input) const { return static_cast<size_t>(first_ + input); }

  const Dispatch& d_;
  const ScanAttr& attr_;
  const int first_, moves_;
  const int64_t head_, keys_, values_;
};

}  // namespace veery::reference
