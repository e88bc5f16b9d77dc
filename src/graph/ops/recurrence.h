// recurrence.h: layers whose memory of all positions so far has a fixed size: linear recurrences
// and short convolutions.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// What log alpha is given for: nothing (alpha = 1), each head, each channel of a key; kOuter: for
/// each element of the state, as the product of a number a value channel and of `rates`.
enum class Decay : uint8_t { kNone, kHead, kChannel, kOuter };

/// The term b (a^T S). kDelta: the delta rule, b = -gate k and a = alpha k; kGeneral: given.
enum class LowRank : uint8_t { kNone, kDelta, kGeneral };

/// Which key head a value head reads: h / (heads / key_heads), or h modulo key_heads.
enum class HeadMap : uint8_t { kGrouped, kTiled };

/// A linear recurrence. The state S of a head is [key size, value size]; at each position
///   S = diag(alpha) S + b (a^T S_before) + gate k v^T,  y = scale q^T S.
/// `exponential`: `gate` is the logarithm i of the input gate, and with m = max(log alpha +
/// m_before, i) alpha becomes exp(log alpha + m_before - m) and the gate exp(i - m) (Beck et al.,
/// arXiv:2405.04517). `normaliser`: y is divided by max(|scale q^T n|, exp(-m)) + eps, where n is a
/// column of S whose values are 1. `read_before`: y is of S_before. A `bonus` for each head adds
/// bonus v to y; one for each channel of a key adds gate (q^T (bonus * k)) v.
/// Mamba-2 (Dao and Gu, arXiv:2405.21060), gated DeltaNet (Yang et al., arXiv:2412.06464), KDA
/// (Kimi Team, arXiv:2510.26692), RWKV-7 (Peng et al., arXiv:2503.14456) and mLSTM are of this
/// form.
struct ScanAttr {
  int32_t heads = 1;      ///< of values
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

/// A convolution over the positions of a sequence, of each channel alone, and what is done with the
/// result.
struct Conv1dAttr {
  Activation activation = Activation::kNone;
};

/// sLSTM (Beck et al., arXiv:2405.04517): the state of a channel is y, c, n, m. With the values i,
/// f, z, o of a position, each of them x + r y_before + bias where r is a matrix of the channel's
/// head,
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

/// Columns of a state that lie together, of one head: a unit of work.
inline constexpr int64_t kScanColumns = 16;

/// How the state of a scan lies: for each head and each kScanColumns columns [key size][16], with a
/// normaliser its column [key size] and with exponential gates m behind that, each filled up to a
/// multiple of 16.
struct ScanLayout {
  int64_t key_size = 0, value_size = 0;
  int64_t blocks = 0;                      ///< of a head
  int64_t normaliser = 0, stabiliser = 0;  ///< where they are in a block; 0: there is none
  int64_t block = 0;                       ///< floats of one
};
ScanLayout scan_layout(const ScanAttr& attr, int64_t key_size, int64_t value_size);
/// [heads * blocks, floats of a block], what Trace::block() is asked for.
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

/// q, k [rows, key_heads * key size], v [rows, heads * value size], decay (log alpha) [rows or 1,
/// heads], with kChannel [rows or 1, heads * key size], with kOuter [rows, heads * value size] and
/// rates [key size, heads * value size], gate [rows, heads], a and b [rows, heads * key size],
/// bonus [1, heads] or [1, heads * key size] -> [rows, heads * value size]. Without a state
/// sequences begin with S = 0 in each run.
inline constexpr OpDef kScan{
    .name = "scan",
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?", "state?"},
    .infer = detail::scan,
    .cost = detail::scan_cost,
    .writes = 1U << ScanIn::kState};

/// y[t, c] = act(bias[c] + sum over j of weight[j, c] x[t - width + 1 + j, c]). x [rows, channels],
/// weight [width, channels], bias [1, channels], state [width - 1, channels]: the rows before.
inline constexpr OpDef kConv1d{.name = "conv1d",
                               .inputs = {"x", "weight", "bias?", "state?"},
                               .infer = detail::conv1d,
                               .cost = detail::conv1d_cost,
                               .writes = 1U << Conv1dIn::kState};

/// x [rows, 4 * channels], of i, f, z and o; recurrent [head size, 4 * channels], from the channels
/// of a head to those of each gate; bias [1, 4 * channels]; state [4, channels] -> y [rows,
/// channels].
inline constexpr OpDef kSlstm{.name = "slstm",
                              .inputs = {"x", "recurrent", "bias", "state?"},
                              .infer = detail::slstm,
                              .cost = detail::slstm_cost,
                              .writes = 1U << SlstmIn::kState};

/// Of as many columns each, y of a part is W x of this part: x [rows, columns], weight [columns,
/// columns of a part] -> [rows, columns].
inline constexpr OpDef kLinearHeads{.name = "linear_heads",
                                    .inputs = {"x", "weight"},
                                    .infer = detail::linear_heads,
                                    .cost = detail::linear_heads_cost};

inline constexpr Op kRecurrences[] = {kScan, kConv1d, kSlstm, kLinearHeads};

}  // namespace op
}  // namespace veery
