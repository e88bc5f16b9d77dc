// attr.h: the parameters of ops that are fixed when a model is traced. Plain data: kernels get a
// copy.
#pragma once
#include <cstdint>
#include <type_traits>
#include <variant>

namespace veery {

/// kGelu: the tanh approximation; kGeluErf: with the error function. kReluSquared: max(x, 0)^2 (So
/// et al., arXiv:2109.08668). kXielu (Huang and Schlag, arXiv:2411.13010): above 0 `positive` x^2 +
/// `beta` x, from there down `negative` (e^min(x, `eps`) - 1 - x) + `beta` x.
enum class Activation : uint8_t { kNone, kSilu, kGelu, kGeluErf, kRelu, kReluSquared, kXielu };

/// activate, activate_back, and wherever an activation is part of another op. All but kXielu have
/// no numbers of their own, so that the kind alone says which it is.
struct ActivateAttr {
  Activation kind = Activation::kNone;
  float positive = 0, negative = 0, beta = 0, eps = 0;

  ActivateAttr() = default;
  ActivateAttr(Activation activation) : kind(activation) {}  // NOLINT(google-explicit-constructor)
  static ActivateAttr xielu(float positive, float negative, float beta, float eps) {
    ActivateAttr attr(Activation::kXielu);
    attr.positive = positive, attr.negative = negative, attr.beta = beta, attr.eps = eps;
    return attr;
  }
  bool operator==(const ActivateAttr&) const = default;
};

/// param. `stack` matrices of one shape lie one below the other (experts, heads): a row of the
/// parameter is a row of one of them. 0: a single matrix, or a vector if it has one row. `vectors`:
/// one row that holds `stack` vectors of one size.
struct ParamAttr {
  int32_t stack = 0;
  bool vectors = false;
};
struct ScaleAttr {
  float factor = 1;
};
/// rms_norm, layer_norm. `groups` > 1: each of `groups` equal parts of a row is normalised alone
/// (heads).
struct NormAttr {
  float eps = 1e-6F;
  int32_t groups = 1;
};
/// linear. One weight: y = x w^T. Several: their outputs side by side. With `gate`: one weight,
/// y = gate(x w^T), or two, y = gate(x w0^T) * (x w1^T). All times `scale`. `eps` is that of the
/// norm input, where there is one. `two_terms`: where a kernel rounds x to int8, x is the sum of
/// two such rows, the second for what the first leaves over.
struct LinearAttr {
  int32_t weights = 1;
  ActivateAttr gate;
  float eps = 0;
  float scale = 1;
  bool two_terms = false;
};
/// rope_angles. Angle i of position p is p * inv_freq(i), i < dims / 2. Long-context scalings as
/// the transformers library names them.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };
struct AnglesAttr {
  int32_t dims = 0;  ///< rotated dimensions of a head
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< kLlama3
  double beta_fast = 32, beta_slow = 1;              ///< kYarn
  bool truncate = true;         ///< kYarn: the blend begins and ends at whole pairs
  double attention_factor = 1;  ///< multiplies cos and sin
  double original_context = 8192;
  /// What multiplies cos and sin of position p is itself multiplied by 1 + temperature ln(1 +
  /// floor((p + temperature_shift) / original_context)).
  double temperature = 0, temperature_shift = 0;
  bool operator==(const AnglesAttr&) const = default;
};
/// rope. Of `dims` dimensions of a head, from `begin` on, pair i is (2i, 2i+1) if interleaved, else
/// (i, i + dims/2); the others pass through. `sign` -1 rotates back: the vjp.
struct RopeAttr {
  int32_t heads = 1;
  int32_t dims = 0;
  bool interleaved = false;
  float sign = 1;
  int32_t begin = 0;
};
/// attend, attend_back. Row r of head h sees the positions p of its sequence with
/// position(r) - window < p <= position(r); window 0: no lower bound; `chunked`: those since the
/// last multiple of the window. `softcap` c > 0: c * tanh(score / c). `alibi` > 0: the score of p
/// falls by slope(h) (position(r) - p), slopes from 2^(-alibi / heads) down to 2^-alibi (Press et
/// al., arXiv:2108.12409). `shared` > 0: a value is that many first dimensions of its key.
struct AttendAttr {
  int32_t heads = 1, kv_heads = 1;
  float scale = 1;
  int32_t window = 0;
  bool chunked = false;
  float softcap = 0;
  float alibi = 0;
  int32_t shared = 0;
  int32_t part = 0;  ///< attend_back: 0 dq, 1 dk, 2 dv
};
/// state of a growing cache: keys or values of one layer, in pages.
struct StateAttr {
  bool keys = true;
  int32_t kv_heads = 1;
  int32_t window = 0;  ///< > 0: positions further back may be forgotten
};
/// qkv_rope: RoPE on the queries and keys of a joint projection, keys and values into the cache.
struct QkvRopeAttr {
  int32_t heads = 1, kv_heads = 1, head_dim = 0;
  int32_t dims = 0;
  bool interleaved = false;
  float eps = 0;  ///< of the head norms, where there are any
};
/// head_linear.
struct HeadsAttr {
  int32_t heads = 1;
};
/// route. With s = softmax or sigmoid of the scores of a row: the `used` experts with the largest
/// s + bias are chosen, the lower index among equals. With `groups` > 1 the experts are cut into
/// equal groups, of which only the `groups_used` best count: a group is as good as the sum of its
/// `group_best` largest s + bias (DeepSeek-AI, arXiv:2412.19437). What an expert counts is s,
/// divided by the sum over the chosen ones if `normalise`, times `scale`. `jitter` > 0: instead,
/// one expert after the other is chosen by its score m and counts its share of a softmax over those
/// left whose score s has (m - s) / max(|s|, m) <= 2 jitter (Liu et al., arXiv:2409.12136).
struct RouteAttr {
  int32_t used = 1;
  bool sigmoid = false;
  bool normalise = false;
  float scale = 1;
  int32_t groups = 1, groups_used = 1, group_best = 1;
  float jitter = 0;
};
/// moe. y = sum over the experts e, in order, whose gate is not 0, of gate_e * (down_e h_e + bias),
/// h_e = act(g) * u with g = gate_e x + bias, u = up_e x + bias. `limit` > 0: g is at most limit, u
/// within +-limit, h = g sigmoid(alpha g) (u + 1) (OpenAI, gpt-oss). `gate_input`: the gate
/// multiplies g and u instead of the result.
struct MoeAttr {
  int32_t experts = 1, used = 1;
  ActivateAttr activation = Activation::kSilu;
  bool gate_input = false;
  float limit = 0, alpha = 1;
};
/// columns: the view [begin, begin + count) of a wider value.
struct ColumnsAttr {
  int64_t begin = 0;
  int64_t count = 0;
};

using Attr = std::variant<std::monostate, ScaleAttr, NormAttr, LinearAttr, AnglesAttr, RopeAttr,
                          AttendAttr, StateAttr, QkvRopeAttr, ColumnsAttr, ParamAttr, HeadsAttr,
                          RouteAttr, MoeAttr, ActivateAttr>;
static_assert(std::is_trivially_copyable_v<Attr>);

}  // namespace veery
