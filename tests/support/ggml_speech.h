// ggml_speech.h: converts a Whisper folder to a .bin file of whisper.cpp.
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "file/folder/folder.h"
#include "model/config.h"

namespace veery::test {

/// Returns the settings and tensors of `folder`, all as f32, with `tokens` as text tokens.
inline std::string ggml_speech(const std::string& folder, const TransformerConfig& c,
                               const std::vector<std::string>& tokens) {
  std::string out;
  const auto number = [&](int64_t value) {
    const auto bits = static_cast<int32_t>(value);
    out.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  };
  for (const int64_t value :
       {int64_t{0x67676d6c}, c.vocab, int64_t{c.source.positions}, c.dim, int64_t{c.source.heads},
        int64_t{c.source.layers}, int64_t{c.context}, c.dim, int64_t{c.attention.heads},
        int64_t{c.layers}, c.source.bands, int64_t{0}, int64_t{2}, int64_t{3}})
    number(value);
  out.append(2 * 3 * 4, '\0');  // mel filters, which the reader skips
  number(std::ssize(tokens));
  for (const std::string& token : tokens) {
    number(std::ssize(token));
    out += token;
  }
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model.", ""},
      {".self_attn_layer_norm.", ".attn_ln."},
      {".self_attn.q_proj.", ".attn.query."},
      {".self_attn.k_proj.", ".attn.key."},
      {".self_attn.v_proj.", ".attn.value."},
      {".self_attn.out_proj.", ".attn.out."},
      {".encoder_attn_layer_norm.", ".cross_attn_ln."},
      {".encoder_attn.q_proj.", ".cross_attn.query."},
      {".encoder_attn.k_proj.", ".cross_attn.key."},
      {".encoder_attn.v_proj.", ".cross_attn.value."},
      {".encoder_attn.out_proj.", ".cross_attn.out."},
      {".final_layer_norm.", ".mlp_ln."},
      {".fc1.", ".mlp.0."},
      {".fc2.", ".mlp.2."},
      {".layers.", ".blocks."},
      {"encoder.layer_norm.", "encoder.ln_post."},
      {"decoder.layer_norm.", "decoder.ln."},
      {"decoder.embed_tokens.", "decoder.token_embedding."},
      {".embed_positions.weight", ".positional_embedding"}};
  const ModelFile file = open_folder(folder);
  for (const TensorView& tensor : file.tensors) {
    std::string name = tensor.name;
    for (const auto& [theirs, ours] : kNames)
      if (const size_t at = name.find(theirs); at != std::string::npos)
        name.replace(at, theirs.size(), ours);
    if (name.starts_with("proj_out")) continue;
    const bool column = name.starts_with("encoder.conv") && name.ends_with(".bias");
    std::vector<int64_t> sizes(tensor.shape.rbegin(), tensor.shape.rend());
    if (column) sizes.insert(sizes.begin(), 1);
    number(std::ssize(sizes));
    number(std::ssize(name));
    number(0);
    for (const int64_t size : sizes) number(size);
    out += name;
    std::vector<std::byte> buffer;
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    decode(tensor.dtype, tensor.read(buffer), values);
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return out;
}

}  // namespace veery::test
