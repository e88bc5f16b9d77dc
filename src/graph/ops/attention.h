// attention.h: softmax attention and the KV cache.
#pragma once
#include "graph/ops/elementwise.h"
#include "graph/ops/leaf.h"

namespace veery {

/// The positions p of its sequence that a row at position r attends to.
/// - kCausal: p <= r; with a window also r - window < p.
/// - kFull: all positions of the sequence at the end of the run.
/// - kSymmetric: those of kFull with |p - r| <= window.
/// - kPrefix: p <= r, and the first Span::visible positions. No supported model uses it.
/// - kSource: the first Span::visible positions of the output of an encoder, for any r.
enum class Mask : uint8_t { kCausal, kFull, kSymmetric, kPrefix, kSource };

/// Parameters of attend and attend_back. `window` 0: unlimited. `chunked`: a causal row sees
/// positions since the last multiple of the window. `softcap` c > 0: c * tanh(score / c). `alibi` >
/// 0: the score of p is reduced by slope(h) |r - p|, with slopes from 2^(-alibi / heads) to
/// 2^-alibi (Press et al., arXiv:2108.12409). `shared` > 0: a value is the first `shared`
/// dimensions of its key (MLA).
struct AttendAttr {
  int32_t heads = 1, kv_heads = 1;
  float scale = 1;
  int32_t window = 0;
  bool chunked = false;
  float softcap = 0;
  float alibi = 0;
  int32_t shared = 0;
  Mask mask = Mask::kCausal;
};

/// Parameters of choose_positions: heads of the index queries; `used`: maximum number of selected
/// positions; `scale`: factor on scores.
struct ChooseAttr {
  int32_t heads = 1;
  int32_t used = 1;
  float scale = 1;
};

struct CacheWriteIn {
  enum { kX, kState };
};
struct AttendIn {
  enum { kQ, kK, kV, kSinks, kChosen };
};
struct AttendOut {
  enum { kY, kLogSum };
};
struct ChooseIn {
  enum { kQ, kWeights, kK };
};
struct AttendBackIn {
  enum { kDy, kQ, kK, kV, kY, kLogSum, kDlogSum, kChosen };
};
struct AttendBackSinksIn {
  enum { kDy, kY, kLogSum, kSinks, kDlogSum };
};
/// The inputs of attend, and the tangents of the first four.
struct AttendTangentIn {
  enum { kTq = AttendIn::kChosen + 1, kTk, kTv, kTsinks };
};

namespace op {
namespace detail {

Outputs cache_write(const OpContext& c);
Outputs attend(const OpContext& c);
Outputs attend_back(const OpContext& c);
Outputs attend_back_sinks(const OpContext& c);
Outputs attend_tangent(const OpContext& c);
Outputs choose_positions(const OpContext& c);
Cost choose_positions_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost attend_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost attend_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost attend_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size);

}  // namespace detail

/// Writes x [rows, kv_heads * head_dim] to a cache; the result is the whole cache.
inline constexpr OpDef kCacheWrite{.name = "cache_write",
                                   .inputs = {"x", "state"},
                                   .outputs = {"state"},
                                   .infer = detail::cache_write,
                                   .alias = CacheWriteIn::kState,
                                   .writes = 1U << CacheWriteIn::kState};
/// q [rows or outputs, heads * head_dim], k and v: caches, or values of this run, sinks [1, heads]
/// -> [rows, heads * value size]. With AttendAttr::shared, v is k. `chosen`: indices from
/// choose_positions, which limit the visible positions; supported for causal attention with
/// AttendAttr::shared and without a window. log_sum [rows, heads]: the natural logarithm of the sum
/// of exp(score) over the visible positions and the sink, of scores after scale, soft cap and
/// ALiBi.
inline constexpr OpDef kAttend{.name = "attend",
                               .inputs = {"q", "k", "v", "sinks?", "chosen?"},
                               .outputs = {"y", "log_sum?"},
                               .infer = detail::attend,
                               .cost = detail::attend_cost};
/// Gradient of attention without a cache. y and log_sum are the results of attend; dlog_sum is
/// absent if the loss does not depend on log_sum. With AttendAttr::shared, dv is the gradient of
/// the keys as values: [rows, kv_heads * key size], zero in dimensions that hold no values.
inline constexpr OpDef kAttendBack{
    .name = "attend_back",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "y", "log_sum", "dlog_sum?", "chosen?"},
    .outputs = {"dq?", "dk?", "dv?"},
    .infer = detail::attend_back,
    .cost = detail::attend_back_cost};
/// Gradient of the sinks: [1, heads].
inline constexpr OpDef kAttendBackSinks{.name = "attend_back_sinks",
                                        .group = OpGroup::kBackward,
                                        .inputs = {"dy", "y", "log_sum", "sinks", "dlog_sum?"},
                                        .outputs = {"dsinks"},
                                        .infer = detail::attend_back_sinks,
                                        .cost = detail::elements<2>};
/// The tangents of y and log_sum for those of q, k, v and sinks; absent ones are zero. Attention
/// without a cache.
inline constexpr OpDef kAttendTangent{
    .name = "attend_tangent",
    .group = OpGroup::kBackward,
    .inputs = {"q", "k", "v", "sinks?", "chosen?", "tq?", "tk?", "tv?", "tsinks?"},
    .outputs = {"y", "log_sum?"},
    .infer = detail::attend_tangent,
    .cost = detail::attend_tangent_cost};

/// Selects the positions with the largest scores among those up to the row's own position; ties
/// prefer the lowest position (lightning indexer of DeepSeek-AI, DeepSeek-V3.2-Exp, 2025). q [rows,
/// heads * n], weights [rows, heads], k: a cache of one head of n, or rows of this run -> [rows,
/// used] i32, ascending, padded with -1. The score of p is the sum over the heads of scale * weight
/// * max(q k_p, 0).
inline constexpr OpDef kChoosePositions{.name = "choose_positions",
                                        .inputs = {"q", "weights", "k"},
                                        .outputs = {"positions"},
                                        .infer = detail::choose_positions,
                                        .cost = detail::choose_positions_cost};

inline constexpr Op kAttention[] = {kCacheWrite,      kAttend,        kAttendBack,
                                    kAttendBackSinks, kAttendTangent, kChoosePositions};

}  // namespace op
}  // namespace veery
