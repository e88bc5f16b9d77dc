// recurrent.cc: layers with a recurrent state: linear recurrences (the op scan) and gated short
// convolutions.
#include "model/recurrent.h"

#include <cmath>

#include "model/layers.h"

namespace veery {
namespace {

// Causal depthwise convolution, with its state.
Array short_conv(Trace& t, const std::string& name, Array x, int32_t width, Activation activation) {
  const int64_t channels = x.shape().cols();
  return conv1d(
      x, t.table(name, {width, channels}), t.has_bias(name) ? t.bias(name, channels) : Array{},
      width > 1 ? t.recurrent_state(name + "_state", {width - 1, channels}) : Array{}, activation);
}

// L2-normalises each head: x / sqrt(|x|^2 + eps) * factor.
Array unit_heads(Trace& t, Array x, int32_t heads, float factor) {
  const int64_t size = x.shape().cols() / heads;
  const auto n = static_cast<float>(size);
  constexpr float kEps = 1e-6F;
  return rms_norm(x, t.constant({1, size}, factor / std::sqrt(n)), kEps / n, heads);
}

}  // namespace

// Gated DeltaNet: q, k and v after a short convolution, decay and step (beta) per head, then a
// gated norm.
Array gated_delta_block(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const Array qkv = short_conv(t, "ssm_conv1d", project(t, "ssm_qkv", h, 2 * r.keys() + r.values()),
                               r.conv_width, Activation::kSilu);
  const Array z = project(t, "ssm_gate", h, r.values());
  const Array decay = activate(project(t, "ssm_alpha", h, r.heads), Activation::kSoftplus) *
                      t.vector("ssm_a", r.heads);
  const Array beta = activate(project(t, "ssm_beta", h, r.heads), Activation::kSigmoid);
  const ScanAttr attr{
      .heads = r.heads, .key_heads = r.key_heads, .map = r.map, .low_rank = LowRank::kDelta};
  const float scale = 1 / std::sqrt(static_cast<float>(r.key_size));
  Array y =
      scan({.q = unit_heads(t, columns(qkv, 0, r.keys()), r.key_heads, scale),
            .k = unit_heads(t, columns(qkv, r.keys(), r.keys()), r.key_heads, 1),
            .v = columns(qkv, 2 * r.keys(), r.values()),
            .decay = decay,
            .gate = beta,
            .state = t.recurrent_state("ssm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  y = rms_norm(t.name("scan", y), t.vector("ssm_norm", r.value_size), c.norms.eps, r.heads);
  return project(t, "ssm_out", activate(z, Activation::kSilu) * y, c.dim);
}

// Kimi Delta Attention: the delta rule with a decay per key channel, and a sigmoid output gate.
// Decay and gate are low-rank projections of the input.
Array kda_block(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const auto convolved = [&](const char* name, const char* conv, int64_t size) {
    return short_conv(t, conv, project(t, name, h, size), r.conv_width, Activation::kSilu);
  };
  const Array q = convolved("attn_q", "ssm_conv1d_q", r.keys());
  const Array k = convolved("attn_k", "ssm_conv1d_k", r.keys());
  const Array forget = project(t, "ssm_f_b", project(t, "ssm_f_a", h, r.key_size), r.keys());
  const ScanAttr attr{.heads = r.heads,
                      .key_heads = r.key_heads,
                      .decay = Decay::kChannel,
                      .low_rank = LowRank::kDelta};
  const float scale = 1 / std::sqrt(static_cast<float>(r.key_size));
  Array y =
      scan({.q = unit_heads(t, q, r.key_heads, scale),
            .k = unit_heads(t, k, r.key_heads, 1),
            .v = convolved("attn_v", "ssm_conv1d_v", r.values()),
            .decay = activate(forget, Activation::kSoftplus) * t.vector("ssm_a", r.heads),
            .gate = activate(project(t, "ssm_beta", h, r.heads), Activation::kSigmoid),
            .state = t.recurrent_state("ssm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  const Array gate = project(t, "ssm_g_b", project(t, "ssm_g_a", h, r.value_size), r.values());
  y = rms_norm(t.name("scan", y), t.vector("ssm_norm", r.value_size), c.norms.eps, r.heads);
  return project(t, "attn_output", activate(gate, Activation::kSigmoid) * y, c.dim);
}

// Mamba: x after a short convolution is the value; step (dt), key (B) and query (C) are projections
// of x, the step with low rank. The decay of a state element is exp(step of its channel * its rate
// A). Jamba (AI21 Labs, arXiv:2403.19887) normalises step, B and C.
Array mamba1_block(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const int64_t inner = r.values();
  const Array z = project(t, "ssm_gate", h, inner);
  const Array x = short_conv(t, "ssm_conv1d", project(t, "ssm_value", h, inner), r.conv_width,
                             Activation::kSilu);
  const Array few = project(t, "ssm_x", x, r.rank + 2 * int64_t{r.key_size});
  const auto part = [&](const char* name, int64_t begin, int64_t size) {
    return norm(t, c, name, columns(few, begin, size));
  };
  const Array step =
      activate(project(t, "ssm_dt", part("ssm_dt_norm", 0, r.rank), inner), Activation::kSoftplus);
  const ScanAttr attr{.heads = r.heads, .key_heads = r.key_heads, .decay = Decay::kOuter};
  Array y =
      scan({.q = part("ssm_c_norm", r.rank + r.key_size, r.key_size),
            .k = part("ssm_b_norm", r.rank, r.key_size),
            .v = step * x,
            .decay = step,
            .rates = t.table("ssm_a", {r.key_size, inner}),
            .state = t.recurrent_state("ssm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  y = t.name("scan", y) + x * t.vector("ssm_d", inner);
  return project(t, "ssm_out", activate(z, Activation::kSilu) * y, c.dim);
}

// Mamba-2: value (x), key (B) and query (C) after a short convolution. The step (dt) of each head
// scales the decay and the value. Then a gate and a grouped norm.
Array mamba2_block(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const Array z = scaled(project(t, "ssm_gate", h, r.values()), c.multipliers.recurrent_gate);
  const Array xbc = short_conv(t, "ssm_conv1d", project(t, "ssm_xbc", h, r.values() + 2 * r.keys()),
                               r.conv_width, Activation::kSilu);
  Array step = activate(project(t, "ssm_dt", h, r.heads), Activation::kSoftplus);
  if (r.least_step > 0 || r.most_step < std::numeric_limits<float>::infinity())
    step = activate(step, ActivateAttr::clip(r.least_step, r.most_step));
  const ScanAttr attr{.heads = r.heads, .key_heads = r.key_heads, .map = r.map};
  Array y =
      scan({.q = columns(xbc, r.values() + r.keys(), r.keys()),
            .k = columns(xbc, r.values(), r.keys()),
            .v = columns(xbc, 0, r.values()),
            .decay = step * t.vector("ssm_a", r.heads),
            .gate = step,
            .bonus = t.vector("ssm_d", r.heads),
            .state = t.recurrent_state("ssm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  const Array gate = activate(z, Activation::kSilu);
  y = t.name("scan", y);
  if (!r.norm_first) y = gate * y;
  if (t.has_weight("ssm_norm")) {
    const int64_t size = r.values() / r.groups;
    y = rms_norm(y, t.constant({1, size}, 1), c.norms.eps, r.groups) *
        t.vector("ssm_norm", r.values());
  }
  if (r.norm_first) y = gate * y;
  return project(t, "ssm_out", y, c.dim);
}

// LFM2's gated short convolution: C * conv(B * x).
Array short_conv_block(Trace& t, const TransformerConfig& c, Array h) {
  const Array bcx = project(t, "shortconv.in_proj", h, 3 * c.dim);
  const Array x =
      short_conv(t, "shortconv.conv", columns(bcx, 0, c.dim) * columns(bcx, 2 * c.dim, c.dim),
                 c.recurrent.conv_width, Activation::kNone);
  return project(t, "shortconv.out_proj", columns(bcx, c.dim, c.dim) * x, c.dim);
}

// mLSTM: exponential input gates and sigmoid forget gates, then a norm per head and an output gate.
Array mlstm_block(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const auto gate = [&](const char* name) {
    const Array x = project(t, name, h, r.heads);
    return r.gate_softcap > 0 ? softcap(x, r.gate_softcap) : x;
  };
  const ScanAttr attr{.heads = r.heads,
                      .key_heads = r.key_heads,
                      .exponential = true,
                      .normaliser = true,
                      .scale = 1 / std::sqrt(static_cast<float>(r.key_size)),
                      .eps = r.divisor_eps};
  Array y =
      scan({.q = project(t, "mlstm_q", h, r.keys()),
            .k = project(t, "mlstm_k", h, r.keys()),
            .v = project(t, "mlstm_v", h, r.values()),
            .decay = activate(gate("mlstm_fgate"), Activation::kLogSigmoid),
            .gate = gate("mlstm_igate"),
            .state = t.recurrent_state("mlstm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  y = layer_norm(t.name("scan", y), t.vector("mlstm_norm", r.values()),
                 t.has_bias("mlstm_norm") ? t.bias("mlstm_norm", r.values()) : Array{}, c.norms.eps,
                 r.heads);
  const Array o = activate(project(t, "mlstm_ogate", h, r.values()), Activation::kSigmoid);
  return project(t, "mlstm_out", o * y, c.dim);
}

}  // namespace veery
