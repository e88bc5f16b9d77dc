// recurrence.h: ops with a state of fixed size: linear recurrences, sLSTM and short convolutions.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// Granularity of log alpha: none (alpha = 1), per head, or per key channel. kOuter: per element of
/// the state, as the product of a value per value channel and `rates`.
enum class Decay : uint8_t { kNone, kHead, kChannel, kOuter };

/// The low-rank term b (a^T S). kDelta: delta rule with b = -gate k and a = alpha k. kGeneral: a
/// and b are inputs.
enum class LowRank : uint8_t { kNone, kDelta, kGeneral };

/// The key head of value head h: h / (heads / key_heads), or h modulo key_heads.
enum class HeadMap : uint8_t { kGrouped, kTiled };

/// A linear recurrence. The state S of a head is [key size, value size]. At each position
///   S = diag(alpha) S_before + b (a^T S_before) + gate k v^T,  y = scale q^T S.
///
/// - `exponential`: `gate` is the logarithm i of the input gate. With m = max(log alpha + m_before,
///   i), alpha becomes exp(log alpha + m_before - m) and the gate exp(i - m) (Beck et al.,
///   arXiv:2405.04517).
/// - `normaliser`: y is divided by max(|scale q^T n|, exp(-m)) + eps, where n is a column of S
///   whose values are 1.
/// - `read_before`: y is computed from S_before.
/// - `bonus`: per head, adds bonus v to y; per key channel, adds gate (q^T (bonus * k)) v.
///
/// Covers Mamba-2 (Dao and Gu, arXiv:2405.21060), gated DeltaNet (Yang et al., arXiv:2412.06464),
/// KDA (Kimi Team, arXiv:2510.26692), RWKV-7 (Peng et al., arXiv:2503.14456) and mLSTM.
struct ScanAttr {
  int32_t heads = 1;      ///< number of value heads
  int32_t key_heads = 1;  ///< a divisor of heads
  HeadMap map = HeadMap::kGrouped;
  Decay decay = Decay::kHead;
  LowRank low_rank = LowRank::kNone;
  bool exponential = false;
  bool normaliser = false;
  bool read_before = false;
  float scale = 1;
  float eps = 0;

  int32_t key_head(int32_t head) const {
    return map == HeadMap::kTiled ? head % key_heads : head / (heads / key_heads);
  }
};

/// Parameters of conv1d: the activation after the convolution.
struct Conv1dAttr {
  Activation activation = Activation::kNone;
};

/// sLSTM (Beck et al., arXiv:2405.04517). The state of a channel is y, c, n, m. With the gates i,
/// f, z, o of a position, each x + r y_before + bias with a recurrent matrix r per head,
///   m = max(f' + m_before, i) with f' = log sigmoid(f), or i at the first position,
///   c = exp(f' + m_before - m) c_before + exp(i - m) tanh(z),
///   n = exp(f' + m_before - m) n_before + exp(i - m),  y = sigmoid(o) c / n.
struct SlstmAttr {
  int32_t heads = 1;
};
inline constexpr int64_t kSlstmGates = 4, kSlstmStates = 4;

struct SlstmIn {
  enum { kX, kRecurrent, kBias, kState };
};
struct LinearHeadsIn {
  enum { kX, kWeight };
};
struct ScanIn {
  enum { kQ, kK, kV, kDecay, kGate, kA, kB, kBonus, kRates, kState };
};
struct Conv1dIn {
  enum { kX, kWeight, kBias, kState };
};

/// Columns of a head's state that are stored together and form a unit of work.
inline constexpr int64_t kScanColumns = 16;

/// Memory layout of a scan's state. Each head consists of blocks of kScanColumns columns: [key
/// size][16], then, with a normaliser, its column [key size], and, with exponential gates, m; each
/// padded to a multiple of 16.
struct ScanLayout {
  int64_t key_size = 0, value_size = 0;
  int64_t blocks = 0;                      ///< per head
  int64_t normaliser = 0, stabiliser = 0;  ///< offsets in a block; 0: absent
  int64_t block = 0;                       ///< floats per block
};
ScanLayout scan_layout(const ScanAttr& attr, int64_t key_size, int64_t value_size);
/// Returns [heads * blocks, floats per block], the shape for Trace::recurrent_state().
Shape scan_state(const ScanAttr& attr, int64_t key_size, int64_t value_size);

namespace op {
namespace detail {

Outputs scan(const OpContext& c);
Cost scan_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs conv1d(const OpContext& c);
Cost conv1d_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs slstm(const OpContext& c);
Cost slstm_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs linear_heads(const OpContext& c);
Cost linear_heads_cost(const OpContext& c, const Outputs& out, const RunSize& size);

}  // namespace detail

/// q, k [rows, key_heads * key size], v [rows, heads * value size], gate [rows, heads], a and b
/// [rows, heads * key size], bonus [1, heads] or [1, heads * key size] -> [rows, heads * value
/// size]. decay (log alpha): [rows or 1, heads]; kChannel: [rows or 1, heads * key size]; kOuter:
/// [rows, heads * value size] with rates [key size, heads * value size]. Without a state, sequences
/// start with S = 0 in each run.
inline constexpr OpDef kScan{
    .name = "scan",
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?", "state?"},
    .infer = detail::scan,
    .cost = detail::scan_cost,
    .writes = 1U << ScanIn::kState};

/// y[t, c] = act(bias[c] + sum over j of weight[j, c] x[t - width + 1 + j, c]). x [rows, channels],
/// weight [width, channels], bias [1, channels], state [width - 1, channels]: the previous rows.
inline constexpr OpDef kConv1d{.name = "conv1d",
                               .inputs = {"x", "weight", "bias?", "state?"},
                               .infer = detail::conv1d,
                               .cost = detail::conv1d_cost,
                               .writes = 1U << Conv1dIn::kState};

/// x [rows, 4 * channels]: gates i, f, z and o; recurrent [head size, 4 * channels]: from the
/// channels of a head to those of each gate; bias [1, 4 * channels]; state [4, channels] -> y
/// [rows, channels].
inline constexpr OpDef kSlstm{.name = "slstm",
                              .inputs = {"x", "recurrent", "bias", "state?"},
                              .infer = detail::slstm,
                              .cost = detail::slstm_cost,
                              .writes = 1U << SlstmIn::kState};

/// Block-diagonal product: part i of y is W_i times part i of x. x [rows, columns], weight
/// [columns, columns per part] -> [rows, columns].
inline constexpr OpDef kLinearHeads{.name = "linear_heads",
                                    .inputs = {"x", "weight"},
                                    .infer = detail::linear_heads,
                                    .cost = detail::linear_heads_cost};

inline constexpr Op kRecurrences[] = {kScan, kConv1d, kSlstm, kLinearHeads};

}  // namespace op
}  // namespace veery
