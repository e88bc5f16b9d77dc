// recurrent.h: hyperparameters of layers with a recurrent state.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "graph/ops/recurrence.h"

namespace veery {

/// Recurrent layers: gated DeltaNet (Yang et al., arXiv:2412.06464), Mamba (Gu and Dao,
/// arXiv:2312.00752), Mamba-2 (Dao and Gu, arXiv:2405.21060), gated short convolution (Liquid AI's
/// LFM2, arXiv:2511.23404), mLSTM (Beck et al., arXiv:2405.04517, as in arXiv:2503.13427), Kimi
/// Delta Attention (Kimi Team, arXiv:2510.26692), RWKV-7 (Peng et al., arXiv:2503.14456), xLSTM
/// with blocks of mLSTM and sLSTM (arXiv:2405.04517).
enum class Mixer : uint8_t {
  kNone,
  kDelta,
  kMamba1,
  kMamba2,
  kShortConv,
  kMlstm,
  kKda,
  kRwkv7,
  kXlstmBlocks
};

/// Returns the name for messages: "Mamba-2", or "none".
const char* name(Mixer mixer);

/// xLSTM models with mLSTM blocks (after a convolution), sLSTM blocks, or both.
struct XlstmSizes {
  int32_t cell_heads = 0;       ///< heads of sLSTM; 0: no sLSTM blocks
  int32_t cell_conv_width = 0;  ///< of sLSTM; 0: no convolution
  int32_t part = 0;             ///< block size of the q, k and v projections of mLSTM
  std::vector<bool> cells;      ///< by layer: is an sLSTM block
  bool operator==(const XlstmSizes&) const = default;
};

/// Ranks of RWKV-7's low-rank projections: decay (w), in-context learning rate (a), value residual
/// (v) and gate (g).
struct Rwkv7Ranks {
  int32_t decay = 0, step = 0, value = 0, gate = 0;
  bool operator==(const Rwkv7Ranks&) const = default;
};

/// Layers with a recurrent state of fixed size instead of a KV cache.
struct RecurrentConfig {
  Mixer mixer = Mixer::kNone;
  std::vector<bool> layers;              ///< by layer: is recurrent; empty: all layers
  int32_t heads = 0, key_heads = 0;      ///< number of value heads and key heads
  int32_t key_size = 0, value_size = 0;  ///< per head
  int32_t conv_width = 0;
  HeadMap map = HeadMap::kGrouped;
  int32_t rank = 0;           ///< kMamba1: rank of the step projection (dt_rank)
  Rwkv7Ranks ranks;           ///< kRwkv7
  XlstmSizes blocks;          ///< kXlstmBlocks
  int32_t groups = 1;         ///< kMamba2: groups of the gated norm
  bool norm_first = false;    ///< kMamba2: normalises before the gate
  float gate_softcap = 0;     ///< kMlstm: soft cap of input and forget gates; 0: none
  float divisor_eps = 1e-6F;  ///< kMlstm: added to the denominator
  /// kMamba2: limits of the step (time_step_limit).
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();

  int64_t keys() const { return int64_t{key_heads} * key_size; }
  int64_t values() const { return int64_t{heads} * value_size; }
};

}  // namespace veery
