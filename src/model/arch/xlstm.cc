// xlstm.cc: xLSTM (Beck et al., arXiv:2405.04517) in two forms: that of the 7B model
// (arXiv:2503.13427), pre-norm mLSTM blocks and gated feed-forward layers; and that of the package
// `xlstm`, mLSTM blocks between projections and sLSTM blocks followed by a feed-forward layer. The
// weights determine the type of a block.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/recurrent.h"

namespace veery {
namespace {

// Causal depthwise convolution, with its state.
Array convolved(Trace& t, Array x, int32_t width) {
  const int64_t channels = x.shape().cols();
  const char* const kName = "cell_conv1d";
  return conv1d(x, t.table(kName, {width, channels}),
                t.has_bias(kName) ? t.bias(kName, channels) : Array{},
                width > 1 ? t.recurrent_state("cell_conv1d_state", {width - 1, channels}) : Array{},
                Activation::kSilu);
}

Array norm_heads(Trace& t, const TransformerConfig& c, const char* name, Array y, int32_t heads) {
  return layer_norm(y, t.vector(name, y.shape().cols()), {}, c.norms.eps, heads);
}

// q and k are projections of the convolved input, v of the input; gates depend on q, k and v.
Array mlstm(Trace& t, const TransformerConfig& c, Array h) {
  const RecurrentConfig& r = c.recurrent;
  const int64_t inner = r.values();
  const Array both = project(t, "mlstm_up", h, 2 * inner);
  const Array x = columns(both, 0, inner), z = columns(both, inner, inner);
  const Array mixed = convolved(t, x, r.conv_width);
  const auto part = [&](const char* name, Array of) {
    return linear_heads(of, t.table(name, {inner, r.blocks.part}));
  };
  const Array q = part("heads_q", mixed), k = part("heads_k", mixed), v = part("heads_v", x);
  const Array all = concat(concat(q, k), v);
  const ScanAttr attr{.heads = r.heads,
                      .key_heads = r.key_heads,
                      .exponential = true,
                      .normaliser = true,
                      .scale = 1 / std::sqrt(static_cast<float>(r.key_size)),
                      .eps = r.divisor_eps};
  const Array y =
      scan({.q = q,
            .k = k,
            .v = v,
            .decay = activate(project(t, "mlstm_fgate", all, r.heads), Activation::kLogSigmoid),
            .gate = project(t, "mlstm_igate", all, r.heads),
            .state = t.recurrent_state("mlstm_state", scan_state(attr, r.key_size, r.value_size))},
           attr);
  const Array out = norm_heads(t, c, "mlstm_norm", t.name("scan", y), r.heads) +
                    mixed * t.vector("mlstm_skip", inner);
  return project(t, "mlstm_out", activate(z, Activation::kSilu) * out, c.dim);
}

// Input and forget gates read the convolved input.
Array slstm_cells(Trace& t, const TransformerConfig& c, Array h) {
  const XlstmSizes& sizes = c.recurrent.blocks;
  const int64_t head = c.dim / sizes.cell_heads;
  const Array mixed = sizes.cell_conv_width > 0 ? convolved(t, h, sizes.cell_conv_width) : h;
  const auto gate = [&](const char* name, Array of) {
    return linear_heads(of, t.table(name, {c.dim, head}));
  };
  const Array gates = concat(concat(gate("slstm_i", mixed), gate("slstm_f", mixed)),
                             concat(gate("slstm_z", h), gate("slstm_o", h)));
  const Array y = slstm(gates, t.table("slstm_r", {head, kSlstmGates * c.dim}),
                        t.bias("slstm_r", kSlstmGates * c.dim),
                        t.recurrent_state("slstm_state", {kSlstmStates, c.dim}), sizes.cell_heads);
  return norm_heads(t, c, "slstm_norm", t.name("cells", y), sizes.cell_heads);
}

}  // namespace

Array xlstm_lm(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles&, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    const bool cells = c.recurrent.blocks.cells[static_cast<size_t>(layer)];
    x = x + (cells ? slstm_cells(t, c, h) : mlstm(t, c, h));
    if (!cells) return x;
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

void complete_xlstm_lm(TransformerConfig& c) { c.feed_forward.activation = Activation::kGeluErf; }

Array xlstm(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles&, int32_t) {
    x = x + mlstm_block(t, c, norm(t, c, "attn_norm", x));
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Files contain an output head even if their configuration says that it is tied.
void complete_xlstm(TransformerConfig& c) { c.output.tied = false; }

}  // namespace veery
