// gemma4.cc: Gemma 4, text only (Gemma Team, 2026), as in transformers: norms before and after each
// part, unscaled attention scores, normalised values, layers that share the KV cache of an earlier
// layer, per-layer embeddings, and experts in parallel to the dense feed-forward layer.
// EmbeddingGemma 2, an encoder of such layers, has no table of per-layer embeddings and ends with a
// projection.
#include <cmath>
#include <vector>

#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

/// The state of one trace of the model.
class Gemma4 {
 public:
  Gemma4(Trace& t, const TransformerConfig& c)
      : t_(t), c_(c), kept_(static_cast<size_t>(c.layers)) {
    check_shared_kv(c, c.architecture);  // windows may have changed since the file was read
  }

  // Per-layer input of each token: a projection of its embedding plus, if there is a table, its
  // row: [rows, layers * layer_input].
  void find_inputs(Array embedding) {
    const int64_t n = c_.input.layer_input, all = c_.layers * n;
    if (n == 0) return;
    const auto root = [](int64_t x) { return std::sqrt(static_cast<float>(x)); };
    Array own;
    if (c_.input.layer_input_rows > 0)
      own = embed(t_.tokens(), t_.weight("per_layer_token_embd", {c_.input.layer_input_rows, all}),
                  root(n));
    const Array projected =
        scale(project(t_, "per_layer_model_proj", embedding, all), 1 / root(c_.dim));
    const Array context =
        rms_norm(projected, t_.vector("per_layer_proj_norm", n), c_.norms.eps, c_.layers);
    inputs_ = own ? scale(context + own, std::sqrt(0.5F)) : context;
  }

  Array layer(Array x, const Angles& angles, int32_t i) {
    if (c_.shares_kv(i)) x = leave_other_rows(x, i);
    x = x + norm(t_, c_, "post_attention_norm", attention(norm(t_, c_, "attn_norm", x), angles, i));
    x = x + norm(t_, c_, "post_ffw_norm", both_feed_forwards(x));
    if (inputs_) x = x + layer_input(x, i);
    return x * t_.vector("layer_output_scale", 1);
  }

 private:
  struct Kept {
    Array keys, values;
  };

  // No later layer writes a cache, so only the requested outputs are computed from here on.
  Array leave_other_rows(Array x, int32_t i) {
    if (inputs_ && first_input_ == 0) {
      first_input_ = i;
      const int64_t begin = i * c_.input.layer_input;
      inputs_ = t_.select_outputs(columns(inputs_, begin, inputs_.shape().cols() - begin));
    }
    return t_.select_outputs(x);
  }

  Array turned(const char* norm_name, Array x, Array angles, int32_t heads) {
    const int64_t size = x.shape().cols() / heads;
    x = rms_norm(x, t_.vector(norm_name, size), c_.norms.eps, heads);
    return rope(x, angles, {heads, static_cast<int32_t>(angles.shape().cols())});
  }

  Kept keep(Array h, const LayerAngles& angles, int32_t i) {
    const int32_t heads = c_.kv_heads_of(i);
    const int64_t size = int64_t{heads} * c_.head_dim_of(i);
    const int32_t window = c_.is_local(i) ? c_.attention.window : 0;
    const Array k = project(t_, "attn_k", h, size);
    Array v = c_.attention.values_are_keys && !c_.is_local(i) ? k : project(t_, "attn_v", h, size);
    v = rms_norm(v, t_.constant({1, c_.head_dim_of(i)}, 1), c_.norms.eps, heads);
    return {t_.cached("attn.k", turned("attn_k_norm", k, angles.key, heads),
                      {StateKind::kKeys, heads, window}),
            t_.cached("attn.v", v, {StateKind::kValues, heads, window})};
  }

  Array attention(Array h, const Angles& angles, int32_t i) {
    const bool local = c_.is_local(i);
    LayerAngles turns = local ? angles.local : angles.global;
    const Array q = project(t_, "attn_q", h, int64_t{c_.attention.heads} * c_.head_dim_of(i));
    if (!c_.shares_kv(i))
      kept_[static_cast<size_t>(i)] = keep(h, turns, i);
    else
      turns.query = t_.select_outputs(turns.query);
    const Kept& from = kept_.at(static_cast<size_t>(c_.keys_of(i)));
    const Array y =
        attend(t_.name("attn.q", turned("attn_q_norm", q, turns.query, c_.attention.heads)),
               from.keys, from.values,
               {.heads = c_.attention.heads,
                .kv_heads = c_.kv_heads_of(i),
                .scale = c_.attention.scale,
                .window = local ? c_.attention.window : 0,
                .mask = mask_of(c_, local ? c_.attention.window : 0)});
    return project(t_, "attn_output", t_.name("attn.out", y), c_.dim);
  }

  // The dense feed-forward layer and, in parallel, the experts, if any. The router reads x before
  // their norm.
  Array both_feed_forwards(Array x) {
    const Array dense = dense_feed_forward(t_, c_, norm(t_, c_, "ffn_norm", x));
    const int32_t count = c_.experts.count;
    if (count == 0) return dense;
    const float root = 1 / std::sqrt(static_cast<float>(c_.dim));
    const Array seen = rms_norm(x, t_.factors("ffn_gate_inp", c_.dim), c_.norms.eps);
    const Array scores = scale(project(t_, "ffn_gate_inp", seen, count), root);
    const Array gates = route(scores, c_.experts.route) * t_.factors("ffn_down_exps", count);
    const Array y = routed_experts(t_, c_, norm(t_, c_, "pre_ffw_norm_2", x), gates);
    return norm(t_, c_, "post_ffw_norm_1", dense) + norm(t_, c_, "post_ffw_norm_2", y);
  }

  // Returns the contribution of the per-layer input.
  Array layer_input(Array x, int32_t i) {
    const int64_t n = c_.input.layer_input;
    const Array gate = activate(project(t_, "inp_gate", x, n), c_.feed_forward.activation);
    const Array y = gate * columns(inputs_, (i - first_input_) * n, n);
    return norm(t_, c_, "post_norm", project(t_, "proj", y, c_.dim));
  }

  Trace& t_;
  const TransformerConfig& c_;
  std::vector<Kept> kept_;
  Array inputs_;  // starting with those of layer first_input_
  int32_t first_input_ = 0;
};

}  // namespace

Array gemma4(Trace& t, const TransformerConfig& c) {
  Gemma4 model(t, c);
  const Array y = decoder(
      t, c, [&](Array x, const Angles& angles, int32_t i) { return model.layer(x, angles, i); },
      [&](Array embedding) { model.find_inputs(embedding); });
  return c.output.projected > 0 ? project(t, "embedding_proj", y, c.output.projected) : y;
}

void complete_gemma4(TransformerConfig& c) {
  complete_gemma(c);
  c.attention.scale = 1;
  c.experts.route.normalise = true;
}

void complete_gemma4_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.positions.local_rope = AnglesAttr{
      .dims = c.attention.local_head_dim > 0 ? c.attention.local_head_dim : c.attention.head_dim,
      .theta = checked_number(metadata, "gemma4.rope.freq_base_swa").value_or(10000)};
}

}  // namespace veery
