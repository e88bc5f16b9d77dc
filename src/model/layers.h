// layers.h: layers shared by the model definitions.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// Returns the projection `name` of the current scope, with a bias if the file has one.
Array project(Trace& t, const std::string& name, Array x, int64_t out,
              Precision precision = Precision::kUsual);

/// Returns factor * x; x itself if the factor is 1.
inline Array scaled(Array x, float factor) { return factor == 1 ? x : scale(x, factor); }

/// Returns the norm `name` of the current scope, with a bias if the file has one.
Array norm(Trace& t, const TransformerConfig& c, const std::string& name, Array x);

/// RoPE angles of keys, and of queries, which may include a temperature; otherwise both are the
/// same value. Empty: no rotation.
struct LayerAngles {
  Array query, key;
};
/// Angles of layers with global attention and with a sliding window.
struct Angles {
  LayerAngles global, local;
  std::vector<LayerAngles> layers;  ///< per layer, if layers have different RoPE bases
};

/// Returns the mask of a layer with the given window (0: none).
Mask mask_of(const TransformerConfig& c, int32_t window);

/// Self-attention of one layer on the normalised input `h` [rows, dim]: projections attn_q, attn_k
/// and attn_v, QK norms if present, RoPE, KV cache and attention, without the output projection.
/// `window` 0: no sliding window.
Array attention(Trace& t, const TransformerConfig& c, Array h, const LayerAngles& angles,
                int32_t window);

/// Attention with the window and angles of `layer`, a norm before the output projection if the
/// model has one, and the output projection.
Array attention_block(Trace& t, const TransformerConfig& c, Array h, const Angles& angles,
                      int32_t layer);

/// Feed-forward layer: down(act(gate(h)) * up(h)) (Shazeer, 2020), or down(act(up(h))) without a
/// gate, with a norm before `down` if the model has one.
Array dense_feed_forward(Trace& t, const TransformerConfig& c, Array h);
/// Routed experts, and the shared expert if the model has one (Shazeer et al., 2017).
Array mixture_of_experts(Trace& t, const TransformerConfig& c, Array h);
/// Experts if the layer has a router, otherwise a dense feed-forward layer.
Array feed_forward(Trace& t, const TransformerConfig& c, Array h);
/// The routed experts of the layer; `gates` [rows, experts] are their weights.
Array routed_experts(Trace& t, const TransformerConfig& c, Array h, Array gates);

/// A layer: x [rows, dim] -> [rows, dim].
using Layer = std::function<Array(Array x, const Angles& angles, int32_t layer)>;

/// A decoder: embedding, layers, and for the requested outputs the final norm and output head.
/// Returns logits [outputs, vocab]. `before` is called with the embedded tokens.
Array decoder(Trace& t, const TransformerConfig& c, const Layer& layer,
              const std::function<void(Array)>& before = {});

/// Outputs of the multi-token prediction (MTP) layer (DeepSeek-AI, arXiv:2412.19437), for the
/// requested outputs: its hidden states after the final norm, which are the next step's "features",
/// and logits of the token after the next.
struct MtpRows {
  Array hidden, logits;
};
/// Traces the MTP layer. Inputs: tokens, and "features" [rows, dim], the hidden state of the main
/// model (or of the previous step) before each token.
MtpRows mtp_rows(Trace& t, const TransformerConfig& c);

/// An encoder: embedding, layers and a final norm if the model has one. Returns all hidden states.
Array encoder(Trace& t, const TransformerConfig& c, const Layer& layer);

}  // namespace veery
