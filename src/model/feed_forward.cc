// feed_forward.cc: dense feed-forward layers and mixtures of experts (Shazeer et al., 2017).
#include "model/layers.h"

namespace veery {
namespace {

// A dense feed-forward layer; `end` is the suffix of its weights' names (ffn_upEND ...).
Array single_ffn(Trace& t, const TransformerConfig& c, Array h, int64_t hidden,
                 const std::string& end) {
  const ActivateAttr activation = c.activation_of(t.layer());
  Array x = project(t, (c.feed_forward.gated ? "ffn_gate" : "ffn_up") + end, h, hidden);
  x = activate(scaled(x, c.multipliers.gate), activation);
  if (c.feed_forward.gated) x = x * project(t, "ffn_up" + end, h, hidden);
  if (t.has_weight("ffn_sub_norm" + end)) x = norm(t, c, "ffn_sub_norm" + end, x);
  // Activations before `down` have the widest range, and quantising them causes most of the error
  // of quantised encoders. An embedding is a single row, so later tokens cannot compensate.
  const bool encoder = c.attention.mask != Mask::kCausal;
  x = project(t, "ffn_down" + end, x, c.dim, encoder ? Precision::kHigh : Precision::kUsual);
  return scaled(x, c.multipliers.down);
}

// Returns the weights of `count` experts on rows of `width`, with biases if present.
struct ExpertSizes {
  int32_t count;
  int64_t hidden, width;
};
Experts experts(Trace& t, const TransformerConfig& c, const ExpertSizes& s,
                const std::string& end) {
  const auto bias = [&](const std::string& name, int64_t size) {
    return t.has_bias(name) ? t.stacked_bias(name, s.count, size) : Array{};
  };
  const std::string gate = "ffn_gate" + end;
  const bool gated = c.feed_forward.gated;
  return {gated ? t.stack(gate, {s.count, s.hidden, s.width}) : Array{},
          t.stack("ffn_up" + end, {s.count, s.hidden, s.width}),
          t.stack("ffn_down" + end, {s.count, s.width, s.hidden}),
          gated ? bias(gate, s.hidden) : Array{},
          bias("ffn_up" + end, s.hidden),
          bias("ffn_down" + end, s.width)};
}

// The shared expert, scaled by a sigmoid gate if the model has one.
Array shared_experts(Trace& t, const TransformerConfig& c, Array h) {
  const int64_t hidden = c.experts.shared_hidden;
  if (!t.has_weight("ffn_gate_inp_shexp")) return single_ffn(t, c, h, hidden, "_shexp");
  const Array gate =
      route(linear(h, t.stack("ffn_gate_inp_shexp", {1, 1, c.dim})), {.used = 1, .sigmoid = true});
  return moe(h, gate, experts(t, c, {1, hidden, c.dim}, "_shexp"),
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
  const int64_t width = e.latent > 0 ? e.latent : c.dim;
  if (e.latent > 0) h = project(t, "ffn_latent_down", h, width);
  const Array y =
      moe(h, t.name("ffn_gates", gates), experts(t, c, {e.count, e.hidden, width}, "_exps"), attr);
  return e.latent > 0 ? project(t, "ffn_latent_up", y, c.dim) : y;
}

Array mixture_of_experts(Trace& t, const TransformerConfig& c, Array h) {
  const ExpertConfig& e = c.experts;
  const Array bias = t.has_bias("exp_probs_b") ? t.bias("exp_probs_b", e.count) : Array{};
  const Array y =
      routed_experts(t, c, h, route(project(t, "ffn_gate_inp", h, e.count), e.route, bias));
  // If a file lacks one of the two, shared_experts() requires it, and the error names it.
  const bool up = t.has_weight("ffn_up_shexp"), down = t.has_weight("ffn_down_shexp");
  const Array all = up || down ? shared_experts(t, c, h) + y : y;
  return e.scale == 1 ? all : scale(all, e.scale);
}

Array feed_forward(Trace& t, const TransformerConfig& c, Array h) {
  const bool mixture = c.experts.count > 0 && t.has_weight("ffn_gate_inp");
  return mixture ? mixture_of_experts(t, c, h) : dense_feed_forward(t, c, h);
}

}  // namespace veery
