// whisper_names.h: what folders of Whisper call the tensors that have our names here.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// "model.decoder.layers.0.encoder_attn.q_proj.weight" is "blk.0.cross_attn_q.weight",
/// "model.encoder.conv1.bias" is "enc.conv1.bias". Empty if there is no such tensor.
std::string whisper_name(std::string_view name);

}  // namespace veery
