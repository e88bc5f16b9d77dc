// Linear recurrences (kScan) and short causal convolutions (kConv1d).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/blocks.h"
#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// The state of one head, with the names of the formulas (ScanAttr).
struct HeadState {
  std::vector<float> s;  ///< [key size][value size]
  std::vector<float> n;  ///< [key size]
  float m = 0;
};

// One head of one span. scan_layout() defines the memory layout of stored states.
class HeadScan {
 public:
  HeadScan(const Dispatch& d, const RunShape& shape, const Span& span, int64_t head)
      : d_(d),
        attr_(d.as<ScanAttr>()),
        shape_(shape),
        span_(span),
        head_(head),
        keys_(d.in[ScanIn::kK].cols / attr_.key_heads),
        values_(d.out().cols / attr_.heads),
        layout_(scan_layout(attr_, keys_, values_)) {
    state_.s.assign(static_cast<size_t>(keys_ * values_), 0.0F);
    state_.n.assign(static_cast<size_t>(keys_), 0.0F);
  }

  void run() {
    const Operand& kept = d_.in[ScanIn::kState];
    if (kept && span_.position > 0)
      copy(block_of(kept, shape_, span_.sequence, span_.position), false);
    for (int64_t i = 0; i < span_.rows; ++i) {
      step(span_.first_row + i);
      if (kept && span_.rows - i <= blocks_kept(kept, shape_, span_.sequence))
        copy(block_of(kept, shape_, span_.sequence, span_.position + i + 1), true);
    }
  }

 private:
  float& s(int64_t k, int64_t v) { return state_.s[static_cast<size_t>(k * values_ + v)]; }

  // Copies the state to memory (write) or from memory.
  void copy(float* memory, bool write) {
    const auto move = [&](float& own, float& other) {
      if (write)
        other = own;
      else
        own = other;
    };
    for (int64_t b = 0; b < layout_.blocks; ++b) {
      float* block = memory + (head_ * layout_.blocks + b) * layout_.block;
      const int64_t first = b * kScanColumns;
      for (int64_t k = 0; k < keys_; ++k)
        for (int64_t c = 0; c < std::min(kScanColumns, values_ - first); ++c)
          move(s(k, first + c), block[k * kScanColumns + c]);
      if (attr_.normaliser)
        for (int64_t k = 0; k < keys_; ++k)
          move(state_.n[static_cast<size_t>(k)], block[layout_.normaliser + k]);
      if (attr_.exponential) move(state_.m, block[layout_.stabiliser]);
    }
  }

  const float* key_row(int input, int64_t row) const {
    return d_.in[static_cast<size_t>(input)].row<float>(row) +
           attr_.key_head(static_cast<int32_t>(head_)) * keys_;
  }
  const float* channels(int input, int64_t row) const {
    return row_or_only(d_.in[static_cast<size_t>(input)], row) + head_ * keys_;
  }
  float log_alpha(int64_t row, int64_t k, int64_t v) const {
    const Operand& decay = d_.in[ScanIn::kDecay];
    switch (attr_.decay) {
      case Decay::kNone: return 0;
      case Decay::kHead: return row_or_only(decay, row)[head_];
      case Decay::kChannel: return row_or_only(decay, row)[head_ * keys_ + k];
      case Decay::kOuter:
        return row_or_only(decay, row)[head_ * values_ + v] *
               d_.in[ScanIn::kRates].row<float>(k)[head_ * values_ + v];
    }
    return 0;
  }

  void step(int64_t row) {
    const float* q = key_row(ScanIn::kQ, row);
    const float* k = key_row(ScanIn::kK, row);
    const float* v = d_.in[ScanIn::kV].row<float>(row) + head_ * values_;
    float gate = d_.in[ScanIn::kGate] ? d_.in[ScanIn::kGate].row<float>(row)[head_] : 1;
    float shift = 0;
    if (attr_.exponential) {
      const float log_gate = gate;
      const float before = state_.m + log_alpha(row, 0, 0);
      state_.m = std::max(before, log_gate);
      gate = std::exp(log_gate - state_.m);
      // The stabilised log alpha minus log alpha.
      shift = before - state_.m - log_alpha(row, 0, 0);
    }
    const auto alpha = [&](int64_t i, int64_t c) { return std::exp(log_alpha(row, i, c) + shift); };
    const double bonus = bonus_of(row, q, k, gate);
    double normaliser = 0;
    for (int64_t i = 0; i < keys_; ++i) {
      float& n = state_.n[static_cast<size_t>(i)];
      n = alpha(i, 0) * n + gate * k[i];
      normaliser += attr_.scale * static_cast<double>(q[i]) * n;
    }
    for (int64_t c = 0; c < values_; ++c) {
      double before = 0, after = 0, low_rank = 0;
      for (int64_t i = 0; i < keys_; ++i) {
        before += static_cast<double>(q[i]) * s(i, c);
        if (attr_.low_rank == LowRank::kDelta) low_rank += alpha(i, c) * k[i] * s(i, c);
        if (attr_.low_rank == LowRank::kGeneral) low_rank += channels(ScanIn::kA, row)[i] * s(i, c);
      }
      for (int64_t i = 0; i < keys_; ++i) {
        float written = gate * k[i] * v[c];
        if (attr_.low_rank == LowRank::kDelta)
          written -= gate * k[i] * static_cast<float>(low_rank);
        if (attr_.low_rank == LowRank::kGeneral)
          written += channels(ScanIn::kB, row)[i] * static_cast<float>(low_rank);
        s(i, c) = alpha(i, c) * s(i, c) + written;
        after += static_cast<double>(q[i]) * s(i, c);
      }
      double y = attr_.scale * (attr_.read_before ? before : after);
      if (attr_.normaliser)
        y /= std::max(std::fabs(normaliser), static_cast<double>(std::exp(-state_.m))) + attr_.eps;
      d_.out().row<float>(row)[head_ * values_ + c] = static_cast<float>(y + bonus * v[c]);
    }
  }

  double bonus_of(int64_t, const float* q, const float* k, float gate) const {
    const Operand& bonus = d_.in[ScanIn::kBonus];
    if (!bonus) return 0;
    if (bonus.cols == attr_.heads) return bonus.row<float>(0)[head_];
    double sum = 0;
    for (int64_t i = 0; i < keys_; ++i)
      sum += static_cast<double>(q[i]) * bonus.row<float>(0)[head_ * keys_ + i] * k[i];
    return gate * sum;
  }

  const Dispatch& d_;
  const ScanAttr attr_;
  const RunShape& shape_;
  const Span span_;
  const int64_t head_, keys_, values_;
  const ScanLayout layout_;
  HeadState state_;
};

void scan(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<ScanAttr>().heads;
  const Share items = share(shape.span_count * heads, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i)
    HeadScan(d, shape, shape.spans[i / heads], i % heads).run();
}

// Convolves one channel of one span.
void conv_channel(const Dispatch& d, const RunShape& shape, const Span& span, int64_t c) {
  const Operand& kept = d.in[Conv1dIn::kState];
  const int64_t before = d.in[Conv1dIn::kWeight].rows - 1;
  const int64_t channels = d.out().cols;
  // The inputs, starting `before` positions before the span.
  std::vector<float> x(static_cast<size_t>(before + span.rows), 0.0F);
  if (kept && span.position > 0)
    for (int64_t j = 0; j < before; ++j)
      x[static_cast<size_t>(j)] =
          block_of(kept, shape, span.sequence, span.position)[j * channels + c];
  for (int64_t i = 0; i < span.rows; ++i)
    x[static_cast<size_t>(before + i)] = d.in[Conv1dIn::kX].row<float>(span.first_row + i)[c];
  for (int64_t i = 0; i < span.rows; ++i) {
    double sum = d.in[Conv1dIn::kBias] ? d.in[Conv1dIn::kBias].row<float>(0)[c] : 0;
    for (int64_t j = 0; j <= before; ++j)
      sum += static_cast<double>(d.in[Conv1dIn::kWeight].row<float>(j)[c]) *
             x[static_cast<size_t>(i + j)];
    d.out().row<float>(span.first_row + i)[c] =
        activated(static_cast<float>(sum), d.as<Conv1dAttr>().activation);
    if (kept && span.rows - i <= blocks_kept(kept, shape, span.sequence))
      for (int64_t j = 0; j < before; ++j)
        block_of(kept, shape, span.sequence, span.position + i + 1)[j * channels + c] =
            x[static_cast<size_t>(i + 1 + j)];
  }
}

void conv1d(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share channels = share(d.out().cols, 1, worker);
  for (int32_t s = 0; s < shape.span_count; ++s)
    for (int64_t c = channels.begin; c < channels.end; ++c)
      conv_channel(d, shape, shape.spans[s], c);
}

bool is_block(const Operand& o) { return !o || o.layout == Layout::kBlocks; }
bool takes_scan(const Dispatch& d, const KernelChoice&) {
  return std::all_of(d.in.begin(), d.in.begin() + ScanIn::kState, absent_or_matrix) &&
         is_block(d.in[ScanIn::kState]) && is_matrix(d.out());
}
bool takes_conv1d(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[Conv1dIn::kX]) && is_matrix(d.in[Conv1dIn::kWeight]) &&
         is_block(d.in[Conv1dIn::kState]) && is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    {op::kScan, Target::kReference, takes_scan, {"scan", {scan}}},
    {op::kConv1d, Target::kReference, takes_conv1d, {"conv1d", {conv1d}}},
};

}  // namespace

KernelRows reference_recurrence() { return kRows; }

}  // namespace veery
