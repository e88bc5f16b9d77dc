// Feed-forward parts: one layer, gated or not, or a mixture of experts (Shazeer et al., 2017).
#include "model/layers.h"

namespace veery {
namespace {

// One layer, with the weights ffn_upEND and so on.
Array single_ffn(Trace& t, const TransformerConfig& c, Array h, int64_t hidden,
                 const std::string& end) {
  const ActivateAttr activation = c.activation_of(t.layer());
  Array x = activate(project(t, (c.gated ? "ffn_gate" : "ffn_up") + end, h, hidden), activation);
  if (c.gated) x = x * project(t, "ffn_up" + end, h, hidden);
  if (t.has_weight("ffn_sub_norm" + end)) x = norm(t, c, "ffn_sub_norm" + end, x);
  // An embedding is one row, whose errors no later token makes good: what goes into `down` has the
  // widest range, and rounding it makes most of the error of quantised encoders.
  const bool encoder = c.mask != Mask::kCausal;
  return project(t, "ffn_down" + end, x, c.dim, encoder ? Precision::kHigh : Precision::kUsual);
}

// Weights of `count` experts and their biases, where the file has some.
Experts experts(Trace& t, const TransformerConfig& c, int32_t count, int64_t hidden,
                const std::string& end) {
  const auto bias = [&](const std::string& name, int64_t size) {
    return t.has_bias(name) ? t.stacked_bias(name, count, size) : Array{};
  };
  return {t.stack("ffn_gate" + end, {count, hidden, c.dim}),
          t.stack("ffn_up" + end, {count, hidden, c.dim}),
          t.stack("ffn_down" + end, {count, c.dim, hidden}),
          bias("ffn_gate" + end, hidden),
          bias("ffn_up" + end, hidden),
          bias("ffn_down" + end, c.dim)};
}

// The experts that every row has; a gate of their own may say what they count.
Array shared_experts(Trace& t, const TransformerConfig& c, Array h) {
  const int64_t hidden = c.experts.shared_hidden;
  if (!t.has_weight("ffn_gate_inp_shexp")) return single_ffn(t, c, h, hidden, "_shexp");
  const Array gate =
      route(linear(h, t.stack("ffn_gate_inp_shexp", {1, 1, c.dim})), {.used = 1, .sigmoid = true});
  return moe(h, gate, experts(t, c, 1, hidden, "_shexp"),
             {.activation = c.activation_of(t.layer())});
}

}  // namespace

Array dense_feed_forward(Trace& t, const TransformerConfig& c, Array h) {
  return single_ffn(t, c, h, c.hidden_of(t.layer()), "");
}

Array routed_experts(Trace& t, const TransformerConfig& c, Array h, Array gates) {
  const ExpertConfig& e = c.experts;
  MoeAttr attr = e.moe;
  attr.experts = e.count;
  attr.used = e.route.used;
  attr.activation = c.activation_of(t.layer());
  return moe(h, t.name("ffn_gates", gates), experts(t, c, e.count, e.hidden, "_exps"), attr);
}

Array feed_forward(Trace& t, const TransformerConfig& c, Array h) {
  if (!t.has_weight("ffn_gate_inp")) return dense_feed_forward(t, c, h);
  const ExpertConfig& e = c.experts;
  const Array bias = t.has_bias("exp_probs_b") ? t.bias("exp_probs_b", e.count) : Array{};
  const Array y =
      routed_experts(t, c, h, route(project(t, "ffn_gate_inp", h, e.count), e.route, bias));
  const Array all = t.has_weight("ffn_up_shexp") ? shared_experts(t, c, h) + y : y;
  return e.scale == 1 ? all : scale(all, e.scale);
}

}  // namespace veery
