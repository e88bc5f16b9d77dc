// bloom.cc: decoders with ALiBi: BLOOM (BigScience, 2022), with a norm after the embedding, and MPT
// (MosaicML, 2023), without biases.
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array bloom(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_bloom(TransformerConfig& c) {
  complete_gpt(c);
  c.positions.alibi = 8;
}

void complete_mpt_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.feed_forward.activation = Activation::kGeluErf;
  constexpr const char* kMost = "mpt.attention.max_alibi_bias";
  const auto most = checked_number(metadata, kMost);
  if (!most) throw Error(ErrorKind::kUnsupported, "metadata: {} is missing", kMost);
  c.positions.alibi = static_cast<float>(*most);
}

}  // namespace veery
