// rwkv7.cc: RWKV-7 (Peng et al., arXiv:2503.14456). A layer consists of a time mix, a recurrence
// whose transition matrix is diagonal plus rank one, and a channel mix. Both use token shift. Later
// layers mix their values with those of the first layer.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {
namespace {

// Token shift: returns previous - x, computed as (previous + x) - 2 x. Stores the last row.
Array token_shift(Trace& t, const std::string& state, Array x) {
  const int64_t dim = x.shape().cols();
  const Array sum = conv1d(x, t.constant({2, dim}, 1), {}, t.recurrent_state(state, {1, dim}));
  return sum + scale(x, -2);
}

// Interpolates between x and the previous row with a weight per channel.
Array mixed(Trace& t, const char* name, Array x, Array delta) {
  return x + delta * t.vector(name, x.shape().cols());
}

// Returns second(activation(first(x))), a low-rank projection.
Array low_rank(Trace& t, const std::string& name, Array x, int32_t rank, Activation activation) {
  const Array few = activate(project(t, name + "1", x, rank), activation);
  return project(t, name + "2", few, x.shape().cols());
}

// L2-normalises each head: x / |x|.
Array unit_heads(Trace& t, Array x, int32_t heads) {
  const int64_t size = x.shape().cols() / heads;
  const float length = 1 / std::sqrt(static_cast<float>(size));
  return rms_norm(x, t.constant({1, size}, length), 1e-24F, heads);
}

// The bonus for the current position: v times the sum over a head of r k weight.
Array bonus(Trace& t, Array rk, Array v, int32_t heads) {
  const Array weighted = rk * t.vector("time_mix_r_k", rk.shape().cols());
  return v * apply(op::kSumTo, {weighted, columns(weighted, 0, heads)});
}

// `first`: values of the first layer, set by it.
Array time_mix(Trace& t, const TransformerConfig& c, Array x, Array& first) {
  const RecurrentConfig& r = c.recurrent;
  const Rwkv7Ranks& ranks = r.ranks;
  const Array delta = token_shift(t, "time_mix_before", x);
  const auto seen = [&](const char* lerp) { return mixed(t, lerp, x, delta); };
  const Array receptance = project(t, "time_mix_receptance", seen("time_mix_lerp_r"), c.dim);
  Array k = project(t, "time_mix_key", seen("time_mix_lerp_k"), c.dim);
  const Array xv = seen("time_mix_lerp_v");
  Array v = project(t, "time_mix_value", xv, c.dim);
  if (!first) {
    first = v;
  } else {
    const Array part = activate(low_rank(t, "time_mix_v", xv, ranks.value, Activation::kNone),
                                Activation::kSigmoid);
    v = v + (first + scale(v, -1)) * part;
  }
  const Array step =
      activate(low_rank(t, "time_mix_a", seen("time_mix_lerp_a"), ranks.step, Activation::kNone),
               Activation::kSigmoid);
  const Array gate =
      low_rank(t, "time_mix_g", seen("time_mix_lerp_g"), ranks.gate, Activation::kSigmoid);
  const Array forget =
      activate(low_rank(t, "time_mix_w", seen("time_mix_lerp_w"), ranks.decay, Activation::kTanh),
               Activation::kSigmoid);
  const Array removed = unit_heads(t, k * t.vector("time_mix_k_k", c.dim), r.heads);
  const Array share = k * t.vector("time_mix_k_a", c.dim);
  k = k + share * step + scale(share, -1);
  const ScanAttr attr{.heads = r.heads,
                      .key_heads = r.heads,
                      .decay = Decay::kChannel,
                      .low_rank = LowRank::kGeneral};
  Array y = scan(
      {.q = receptance,
       .k = k,
       .v = v,
       .decay = scale(forget, -std::exp(-0.5F)),
       .a = scale(removed, -1),
       .b = removed * step,
       .state = t.recurrent_state("time_mix_state", scan_state(attr, r.key_size, r.value_size))},
      attr);
  y = layer_norm(t.name("scan", y), t.vector("time_mix_ln", c.dim), t.bias("time_mix_ln", c.dim),
                 c.norms.eps * static_cast<float>(r.value_size), r.heads);
  y = y + bonus(t, receptance * k, v, r.heads);
  return project(t, "time_mix_output", gate * y, c.dim);
}

Array channel_mix(Trace& t, const TransformerConfig& c, Array x) {
  const Array delta = token_shift(t, "channel_mix_before", x);
  const Array k = project(t, "channel_mix_key", mixed(t, "channel_mix_lerp_k", x, delta),
                          c.feed_forward.hidden);
  return project(t, "channel_mix_value", activate(k, Activation::kReluSquared), c.dim);
}

}  // namespace

Array rwkv7(Trace& t, const TransformerConfig& c) {
  Array first;
  return decoder(t, c, [&](Array x, const Angles&, int32_t) {
    x = x + time_mix(t, c, norm(t, c, "attn_norm", x), first);
    return x + channel_mix(t, c, norm(t, c, "ffn_norm", x));
  });
}

void complete_rwkv7(TransformerConfig& c) { c.output.tied = false; }

}  // namespace veery
