// layers.h: parts that many definitions share.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// The projection `name` of the current scope, with its bias where the file has one.
Array project(Trace& t, const std::string& name, Array x, int64_t out,
              Precision precision = Precision::kUsual);

/// factor * x; x itself where that is 1.
inline Array scaled(Array x, float factor) { return factor == 1 ? x : scale(x, factor); }

/// The norm `name` of the current scope, with its bias where the file has one.
Array norm(Trace& t, const TransformerConfig& c, const std::string& name, Array x);

/// The angles of RoPE for keys, and for queries where they have a temperature; the same value
/// where they do not differ. Empty: nothing is turned.
struct LayerAngles {
  Array query, key;
};
/// Those of layers that see everything, of layers with the window, and of layers that turn nothing:
/// their queries may have a temperature.
struct Angles {
  LayerAngles global, local, unrotated;
  std::vector<LayerAngles> layers;  ///< where each layer has its own
};

/// That of a layer whose window is `window`, 0: none.
Mask mask_of(const TransformerConfig& c, int32_t window);

/// Attention of one layer on the normalised input `h` (rows, dim): projections attn_q, attn_k,
/// attn_v, norms of heads where the model has them, RoPE, cache, attention; without the output
/// projection. `window` 0: none.
Array attention(Trace& t, const TransformerConfig& c, Array h, const LayerAngles& angles,
                int32_t window);

/// Attention as above with the window and angles of `layer`, a norm where the model has one there,
/// and the output projection.
Array attention_block(Trace& t, const TransformerConfig& c, Array h, const Angles& angles,
                      int32_t layer);

/// A recurrent layer on the normalised input `h` (rows, dim), as c.recurrent says.
Array recurrent_block(Trace& t, const TransformerConfig& c, Array h);

/// Attention and recurrence beside each other, on the same input.
Array joint_block(Trace& t, const TransformerConfig& c, Array h, const Angles& angles,
                  int32_t layer);

/// Attention or recurrence, as the layer has it.
Array mixer_block(Trace& t, const TransformerConfig& c, Array h, const Angles& angles,
                  int32_t layer);

/// down(act(gate(h)) * up(h)) (Shazeer, 2020), or down(act(up(h))), with a norm before `down` where
/// the model has one there.
Array feed_forward(Trace& t, const TransformerConfig& c, Array h);
/// The same without looking for experts.
Array dense_feed_forward(Trace& t, const TransformerConfig& c, Array h);
/// The experts of the layer; `gates` [rows, experts]: what each counts.
Array routed_experts(Trace& t, const TransformerConfig& c, Array h, Array gates);

/// One layer: x (rows, dim) -> (rows, dim).
using Layer = std::function<Array(Array x, const Angles& angles, int32_t layer)>;

/// Embedding, the layers, and over the rows that are wanted final norm and output head: logits
/// (outputs, vocab).
/// `before`: what is made of the embedded tokens before the layers.
Array decoder(Trace& t, const TransformerConfig& c, const Layer& layer,
              const std::function<void(Array)>& before = {});

/// What the layer behind the others makes of each token and of the hidden state [1, dim] in front
/// of it, the row of "features", behind the last norm: hidden states for the next of its kind, and
/// logits of the token behind it, both of the rows that are wanted (multi-token prediction,
/// DeepSeek-AI, arXiv:2412.19437).
struct FurtherRows {
  Array hidden, logits;
};
FurtherRows further_rows(Trace& t, const TransformerConfig& c);

/// Embeddings, the layers, and a final norm where the model has one: the hidden states of all rows.
Array encoder(Trace& t, const TransformerConfig& c, const Layer& layer);

/// A decoder with a norm before each part: x + mixer(norm(x)), x + ffn(norm(x)).
Array plain_decoder(Trace& t, const TransformerConfig& c);

/// A decoder of recurrent layers alone: x + mixer(norm(x)).
Array recurrent_decoder(Trace& t, const TransformerConfig& c);

/// A decoder whose parts read one norm: x + attention(norm(x)) + ffn(norm(x)).
Array parallel_decoder(Trace& t, const TransformerConfig& c);

}  // namespace veery
