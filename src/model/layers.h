// layers.h: parts that many definitions share.
#pragma once
#include <string>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// Attention of one layer on the normalised input `h` (rows, dim): projections attn_q, attn_k,
/// attn_v, head norms where the model has them, RoPE, cache, attention; without the output
/// projection. `window` 0: none.
Array attention(Trace& t, const DecoderConfig& c, Array h, Array angles, int32_t window);

/// down(act(gate(h)) * up(h)) (Shazeer, 2020).
Array gated_ffn(Trace& t, const DecoderConfig& c, Array h);

/// The projection `name` of the current scope, with its bias where the file has one.
Array project(Trace& t, const std::string& name, Array x, int64_t out);

/// The angles of RoPE for the layers of each kind; the same value where they do not differ.
struct Angles {
  Array global, local;
};
Angles angles(Trace& t, const DecoderConfig& c);

/// Attention as above with the window and angles of `layer`, and the output projection.
Array attention_block(Trace& t, const DecoderConfig& c, Array h, const Angles& angles,
                      int32_t layer);

/// A whole decoder with a norm before each part: x + attention(norm(x)), x + ffn(norm(x)).
Array plain_decoder(Trace& t, const DecoderConfig& c);

/// A whole decoder with a norm before and behind each part.
Array sandwich_decoder(Trace& t, const DecoderConfig& c);

/// Final norm and output head over the rows that are wanted: (outputs, vocab).
Array output_head(Trace& t, const DecoderConfig& c, Array x, Array embedding);

}  // namespace veery
