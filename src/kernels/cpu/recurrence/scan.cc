// Linear recurrences (kScan): the state of a head is a matrix [keys][values] that decays and is
// updated by outer products. Columns of a state never interact, so a work item is a head and 16
// columns, whose state stays in the L1 cache over all positions of a span. Every sum has a fixed
// order that does not depend on the batch.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrence/scan.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/simd-inl.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/common/blocks.h"
#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float exp_of(float x) {
  alignas(64) float lanes[16];
  store(lanes, exp(set(x)));
  return lanes[0];
}

// Returns the sum of a[i] * b[i] (* c[i]), accumulated lane by lane and then over the lanes.
HWY_INLINE float dot(const float* a, const float* b, const float* c, int64_t n) {
  F32 acc = zero();
  for (int64_t i = 0; i < n; i += 16) {
    const int count = static_cast<int>(std::min<int64_t>(16, n - i));
    F32 x = load_first(b + i, count);
    if (c != nullptr) x = mul(x, load_first(c + i, count));
    acc = fma(load_first(a + i, count), x, acc);
  }
  return sum(acc);
}

// Four interleaved accumulators of x^T S, combined as (0 + 1) + (2 + 3).
struct Accumulators {
  F32 part[4];
  HWY_INLINE void add_to(int64_t i, float x, F32 s) { part[i % 4] = fma(set(x), s, part[i % 4]); }
  HWY_INLINE F32 joined() const { return add(add(part[0], part[1]), add(part[2], part[3])); }
};

HWY_INLINE F32 read_state(const float* s, const float* x, int64_t keys) {
  Accumulators sums{{zero(), zero(), zero(), zero()}};
  int64_t i = 0;
  for (; i + 4 <= keys; i += 4)
    unroll<4>([&](auto j) { sums.add_to(j(), x[i + j()], load(s + (i + j()) * 16)); });
  for (; i < keys; ++i) sums.add_to(i, x[i], load(s + i * 16));
  return sums.joined();
}

/// The update of one position to the state of 16 columns.
struct Step {
  const float* alpha;  ///< [keys]
  const float* k;
  const float* q;
  const float* b;      ///< LowRank::kGeneral
  const float* rates;  ///< Decay::kOuter: [keys][16]
  F32 time;            ///< Decay::kOuter: factor of the rates
  F32 written;         ///< factor of k
  F32 low_rank;        ///< LowRank::kGeneral: factor of b
};

// Updates the state and returns q^T S of the updated state.
template <bool kGeneral, bool kOuter>
HWY_INLINE F32 advance(float* s, const Step& step, int64_t keys) {
  Accumulators sums{{zero(), zero(), zero(), zero()}};
  const auto row = [&](int64_t i) {
    F32 x = load(s + i * 16);
    x = mul(x, kOuter ? exp(mul(step.time, load(step.rates + i * 16))) : set(step.alpha[i]));
    x = fma(set(step.k[i]), step.written, x);
    if (kGeneral) x = fma(set(step.b[i]), step.low_rank, x);
    store(s + i * 16, x);
    return x;
  };
  int64_t i = 0;
  for (; i + 4 <= keys; i += 4)
    unroll<4>([&](auto j) { sums.add_to(j(), step.q[i + j()], row(i + j())); });
  for (; i < keys; ++i) sums.add_to(i, step.q[i], row(i));
  return sums.joined();
}

/// 16 columns of the state of a head, for one span.
class Columns {
 public:
  Columns(const Dispatch& d, const Worker& worker, int64_t head, int64_t block)
      : d_(d),
        attr_(d.as<ScanAttr>()),
        head_(head),
        keys_(d.in[ScanIn::kK].cols / attr_.key_heads),
        values_(d.out().cols / attr_.heads),
        layout_(scan_layout(attr_, keys_, values_)),
        first_(head * values_ + block * 16),
        count_(static_cast<int>(std::min<int64_t>(16, values_ - block * 16))),
        offset_((head * layout_.blocks + block) * layout_.block) {
    const int64_t lanes = (keys_ + 15) / 16 * 16;
    alpha_ = reinterpret_cast<float*>(worker.scratch);
    a_ = alpha_ + lanes;
    rates_ = a_ + lanes;
    own_ = rates_ + (attr_.decay == Decay::kOuter ? keys_ * 16 : 0);
    if (attr_.decay == Decay::kOuter)
      for (int64_t i = 0; i < keys_; ++i)
        store(rates_ + i * 16, load_first(d.in[ScanIn::kRates].row<float>(i) + first_, count_));
    if (attr_.decay == Decay::kNone) std::fill_n(alpha_, keys_, 1.0F);
  }

  void walk(const RunShape& shape, const Span& span) {
    const Operand& kept = d_.in[ScanIn::kState];
    const size_t bytes = static_cast<size_t>(layout_.block) * sizeof(float);
    const int64_t count = kept ? blocks_kept(kept, shape, span.sequence) : 0;
    const auto memory = [&](int64_t position) {
      return block_of(kept, shape, span.sequence, position) + offset_;
    };
    float* s = count == 1 ? memory(span.position) : own_;
    if (!kept || span.position == 0)
      std::memset(s, 0, bytes);
    else if (count > 1)
      std::memcpy(s, memory(span.position), bytes);
    for (int64_t i = 0; i < span.rows; ++i) {
      step(s, span.first_row + i);
      if (count > 1 && span.rows - i <= count) std::memcpy(memory(span.position + i + 1), s, bytes);
    }
  }

 private:
  const float* key_row(int input, int64_t row) const {
    return d_.in[static_cast<size_t>(input)].row<float>(row) +
           attr_.key_head(static_cast<int32_t>(head_)) * keys_;
  }
  const float* channels(int input, int64_t row) const {
    return row_or_only(d_.in[static_cast<size_t>(input)], row) + head_ * keys_;
  }

  // Computes the decay alpha of every key channel.
  HWY_INLINE void fill_alpha(int64_t row) {
    if (attr_.decay == Decay::kHead) {
      const float alpha = exp_of(row_or_only(d_.in[ScanIn::kDecay], row)[head_]);
      std::fill_n(alpha_, keys_, alpha);
    } else if (attr_.decay == Decay::kChannel) {
      const float* log_alpha = channels(ScanIn::kDecay, row);
      for (int64_t i = 0; i < keys_; i += 16) {
        const int n = static_cast<int>(std::min<int64_t>(16, keys_ - i));
        store(alpha_ + i, exp(load_first(log_alpha + i, n)));
      }
    }
  }

  // Updates the stabiliser m, computes alpha relative to it, and returns the stabilised gate.
  HWY_INLINE float stabilise(float* s, int64_t row, float log_gate) {
    float& m = s[layout_.stabiliser];
    const float before = m + row_or_only(d_.in[ScanIn::kDecay], row)[head_];
    m = std::max(before, log_gate);
    std::fill_n(alpha_, keys_, exp_of(before - m));
    return exp_of(log_gate - m);
  }

  // Updates the normaliser and returns the divisor of y.
  HWY_INLINE float divisor(float* s, const float* q, const float* k, float gate) {
    float* n = s + layout_.normaliser;
    F32 acc = zero();
    for (int64_t i = 0; i < keys_; i += 16) {
      const int count = static_cast<int>(std::min<int64_t>(16, keys_ - i));
      F32 x = mul(load_first(n + i, count), set(alpha_[0]));
      x = fma(set(gate), load_first(k + i, count), x);
      store_first(n + i, x, count);
      acc = fma(load_first(q + i, count), x, acc);
    }
    const float least = attr_.exponential ? exp_of(-s[layout_.stabiliser]) : 1;
    const float read = attr_.scale * sum(acc);
    return std::max(read < 0 ? -read : read, least) + attr_.eps;
  }

  HWY_INLINE F32 update(float* s, Step& step, F32 v, float gate, int64_t row) {
    const F32 gated = mul(set(gate), v);
    if (attr_.low_rank == LowRank::kDelta) {
      for (int64_t i = 0; i < keys_; ++i) a_[i] = alpha_[i] * step.k[i];
      step.written = mul(set(gate), sub(v, read_state(s, a_, keys_)));
      return advance<false, false>(s, step, keys_);
    }
    step.written = gated;
    if (attr_.low_rank == LowRank::kGeneral) {
      step.low_rank = read_state(s, channels(ScanIn::kA, row), keys_);
      step.b = channels(ScanIn::kB, row);
      return advance<true, false>(s, step, keys_);
    }
    return attr_.decay == Decay::kOuter ? advance<false, true>(s, step, keys_)
                                        : advance<false, false>(s, step, keys_);
  }

  HWY_INLINE void step(float* s, int64_t row) {
    Step step{.alpha = alpha_,
              .k = key_row(ScanIn::kK, row),
              .q = key_row(ScanIn::kQ, row),
              .b = nullptr,
              .rates = rates_,
              .time = zero(),
              .written = zero(),
              .low_rank = zero()};
    const F32 v = load_first(d_.in[ScanIn::kV].row<float>(row) + first_, count_);
    float gate = d_.in[ScanIn::kGate] ? d_.in[ScanIn::kGate].row<float>(row)[head_] : 1;
    if (attr_.exponential)
      gate = stabilise(s, row, gate);
    else
      fill_alpha(row);
    if (attr_.decay == Decay::kOuter)
      step.time = load_first(row_or_only(d_.in[ScanIn::kDecay], row) + first_, count_);
    const F32 before = attr_.read_before ? read_state(s, step.q, keys_) : zero();
    const F32 after = update(s, step, v, gate, row);
    F32 y = mul(attr_.read_before ? before : after, set(attr_.scale));
    if (attr_.normaliser) y = div(y, set(divisor(s, step.q, step.k, gate)));
    if (d_.in[ScanIn::kBonus]) y = fma(set(bonus(step, gate)), v, y);
    store_first(d_.out().row<float>(row) + first_, y, count_);
  }

  HWY_INLINE float bonus(const Step& step, float gate) const {
    const Operand& bonus = d_.in[ScanIn::kBonus];
    if (bonus.cols == attr_.heads) return bonus.row<float>(0)[head_];
    return gate * dot(step.q, step.k, bonus.row<float>(0) + head_ * keys_, keys_);
  }

  const Dispatch& d_;
  const ScanAttr attr_;
  const int64_t head_, keys_, values_;
  const ScanLayout layout_;
  const int64_t first_;
  const int count_;
  const int64_t offset_;
  float *alpha_, *a_, *rates_, *own_;
};

}  // namespace

void fast_scan(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ScanAttr>();
  const int64_t values = d.out().cols / attr.heads;
  const int64_t blocks = (values + 15) / 16;
  const int64_t each = attr.heads * blocks;
  const auto shared = [&](int owner) {
    return share(shape.span_count * each, 1, Worker{owner, worker.count});
  };
  const auto count = [&](int owner) { return shared(owner).end - shared(owner).begin; };
  take_items(worker, count, [&](int owner, int64_t i) {
    const int64_t item = shared(owner).begin + i;
    Columns columns(d, worker, item % each / blocks, item % blocks);
    columns.walk(shape, shape.spans[item / each]);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

bool accepts(const Dispatch& d, const KernelChoice&) {
  return std::all_of(d.in.begin(), d.in.begin() + ScanIn::kState, absent_or_matrix) &&
         (!d.in[ScanIn::kState] || d.in[ScanIn::kState].layout == Layout::kBlocks) &&
         is_matrix(d.out());
}

// Returns the bytes of alpha, a, rates and one state.
size_t scratch(const Dispatch& d, const RunExtent&) {
  const auto& attr = d.as<ScanAttr>();
  const int64_t keys = d.in[ScanIn::kK].cols / attr.key_heads;
  const ScanLayout layout = scan_layout(attr, keys, d.out().cols / attr.heads);
  const int64_t lanes = (keys + 15) / 16 * 16;
  return static_cast<size_t>(2 * lanes + keys * 16 + layout.block) * sizeof(float);
}

constexpr KernelRow kRows[] = {VEERY_F32_ROWS(op::kScan, accepts, scan, scratch)};

}  // namespace

KernelRows fast_scan() { return kRows; }

}  // namespace veery
#endif
