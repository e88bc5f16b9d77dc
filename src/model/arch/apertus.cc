// apertus.cc: Apertus (Swiss AI Initiative, 2025): Llama with QK norm and an ungated feed-forward
// layer whose xIELU activation has learned parameters per layer.
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array apertus(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// GGUF stores the parameters of the activation as lists with one value per layer.
void complete_apertus_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.feed_forward.activation = Activation::kXielu;
  for (const XieluField& field : kXieluFields) {
    const std::string key = field.gguf_key;
    const std::vector<double>* values = metadata.numbers(key);
    if (values == nullptr || std::ssize(*values) != c.layers)
      throw Error(ErrorKind::kFormat, "metadata: {} has {} entries, expected one per layer, {}",
                  key, values == nullptr ? 0 : values->size(), c.layers);
    c.feed_forward.xielu.resize(values->size());
    for (size_t i = 0; i < c.feed_forward.xielu.size(); ++i)
      c.feed_forward.xielu[i].*field.member = static_cast<float>((*values)[i]);
  }
}

}  // namespace veery
