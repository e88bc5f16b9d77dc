// bloom.cc: BLOOM (BigScience, 2022), with a norm behind the embedding, and MPT (MosaicML, 2023),
// without biases: where a position is, scores say by falling with the distance.
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array bloom(Trace& t, const DecoderConfig& c) { return plain_decoder(t, c); }

void complete_bloom(DecoderConfig& c) {
  complete_gpt(c);
  c.alibi = 8;
}

void complete_mpt_gguf(DecoderConfig& c, const Metadata& metadata) {
  c.activation = Activation::kGeluErf;
  const double most = metadata.number("mpt.attention.max_alibi_bias").value_or(0);
  if (!(most > 0))
    throw Error(ErrorKind::kUnsupported,
                "metadata: mpt.attention.max_alibi_bias is {}, expected more than 0", most);
  c.alibi = static_cast<float>(most);
}

}  // namespace veery
