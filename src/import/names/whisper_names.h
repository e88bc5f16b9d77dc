// whisper_names.h: maps tensor names of Whisper folders to our names.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// Returns our name: "model.decoder.layers.0.encoder_attn.q_proj.weight" is
/// "blk.0.cross_attn_q.weight", "model.encoder.conv1.bias" is "enc.conv1.bias". Empty if there is
/// no such tensor.
std::string whisper_name(std::string_view name);

}  // namespace veery
