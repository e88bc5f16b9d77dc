// whisper.cc: Whisper (Radford et al., arXiv:2212.04356): an encoder of log-mel spectrograms after
// two convolutions, and a decoder with cross-attention.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {
namespace {

// Returns the encoder's hyperparameters in the form that shared layers take.
TransformerConfig encoder_config(const TransformerConfig& c) {
  TransformerConfig e = c;
  e.layers = c.source.layers;
  e.attention.heads = e.attention.kv_heads = c.source.heads;
  e.attention.head_dim = static_cast<int32_t>(c.dim / c.source.heads);
  e.attention.scale = 1 / std::sqrt(static_cast<float>(e.attention.head_dim));
  e.feed_forward.hidden = c.source.hidden;
  e.attention.mask = Mask::kFull;
  return e;
}

// A convolution of width 3 over frames, as a matrix product with the concatenated frames, and its
// activation.
Array convolve(Trace& t, const TransformerConfig& c, const std::string& name, Array before,
               Array middle, Array behind) {
  return activate(project(t, name, concat(concat(before, middle), behind), c.dim),
                  c.feed_forward.activation);
}

// Each input row holds two adjacent frames; the second convolution has stride 2 and makes one
// position of them.
Array stem(Trace& t, const TransformerConfig& c) {
  const int64_t bands = c.source.bands;
  const Array x = t.features(2 * bands);
  const Array even = columns(x, 0, bands);
  const Array odd = columns(x, bands, bands);
  const Array first = convolve(t, c, "enc.conv1", shift(odd, 1), even, odd);
  const Array second = convolve(t, c, "enc.conv1", even, odd, shift(even, -1));
  return convolve(t, c, "enc.conv2", shift(second, 1), first, second);
}

// Cross-attention of one layer.
AttendAttr source_attention(const TransformerConfig& c) {
  return {.heads = c.attention.heads,
          .kv_heads = c.attention.heads,
          .scale = c.attention.scale,
          .mask = Mask::kSource};
}
StateAttr source_state(const TransformerConfig& c, StateKind kind) {
  return {.kind = kind, .kv_heads = c.attention.heads, .source = c.source.positions};
}

}  // namespace

Array whisper(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    const Array q = project(t, "cross_attn_q", norm(t, c, "cross_attn_norm", x), c.dim);
    const Array h =
        attend(t.name("cross_attn.q", q),
               t.decoder_reads("cross_attn.k", c.dim, source_state(c, StateKind::kKeys)),
               t.decoder_reads("cross_attn.v", c.dim, source_state(c, StateKind::kValues)),
               source_attention(c));
    x = x + project(t, "cross_attn_output", t.name("cross_attn.out", h), c.dim);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

std::vector<Array> whisper_encoder(Trace& t, const TransformerConfig& c) {
  const TransformerConfig e = encoder_config(c);
  Array x =
      stem(t, c) + embed(t.positions(), t.weight("enc.position_embd", {c.source.positions, c.dim}));
  t.without_state([&] {
    t.blocks(
        e.layers,
        [&](int32_t layer) {
          x = x + attention_block(t, e, norm(t, e, "attn_norm", x), {}, layer);
          x = t.name("out", x + feed_forward(t, e, norm(t, e, "ffn_norm", x)));
        },
        "enc.");
  });
  x = t.name("enc.hidden", norm(t, e, "enc.output_norm", x));
  std::vector<Array> written = {x};
  t.blocks(c.layers, [&](int32_t) {
    written.push_back(t.encoder_writes("cross_attn.k", project(t, "cross_attn_k", x, c.dim),
                                       source_state(c, StateKind::kKeys)));
    written.push_back(t.encoder_writes("cross_attn.v", project(t, "cross_attn_v", x, c.dim),
                                       source_state(c, StateKind::kValues)));
  });
  return written;
}

}  // namespace veery
