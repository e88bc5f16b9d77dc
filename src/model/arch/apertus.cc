// apertus.cc: Apertus (Swiss AI, 2025): llama with norms of heads and, in a feed-forward part
// without a gate, an activation whose shape each layer has learned.
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array apertus(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_apertus(TransformerConfig& c) { c.gated = false; }

// The numbers of a layer's activation are lists with one for each layer.
void complete_apertus_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.activation = Activation::kXielu;
  for (const XieluField& field : kXieluFields) {
    const std::string key = field.gguf_key;
    const std::vector<double>* values = metadata.numbers(key);
    if (values == nullptr || std::ssize(*values) != c.layers)
      throw Error(ErrorKind::kFormat, "metadata: {} has {} entries, expected one for each of {}",
                  key, values == nullptr ? 0 : values->size(), c.layers);
    c.xielu.resize(values->size());
    for (size_t i = 0; i < c.xielu.size(); ++i)
      c.xielu[i].*field.member = static_cast<float>((*values)[i]);
  }
}

}  // namespace veery
