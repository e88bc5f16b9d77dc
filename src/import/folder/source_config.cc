#include "import/folder/source_config.h"

namespace veery {

// In Whisper's config.json, num_hidden_layers is the number of encoder layers.
void normalise_whisper(Json& config) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"decoder_layers", "num_hidden_layers"},
      {"decoder_attention_heads", "num_attention_heads"},
      {"decoder_ffn_dim", "intermediate_size"},
      {"max_target_positions", "max_position_embeddings"}};
  for (const auto& [theirs, ours] : kNames) {
    const auto value = config.find(theirs);
    if (value != config.end())
      config[ours] = Json(*value);
    else
      config.erase(ours);
  }
}

void read_source(const JsonFields& fields, TransformerConfig& c) {
  SourceConfig& s = c.source;
  s.layers = static_cast<int32_t>(fields.size("encoder_layers"));
  s.heads = static_cast<int32_t>(fields.size("encoder_attention_heads"));
  s.hidden = fields.size("encoder_ffn_dim");
  s.positions = static_cast<int32_t>(fields.size("max_source_positions"));
  s.bands = fields.size("num_mel_bins");
  check_source(c, fields.where());
}

}  // namespace veery
