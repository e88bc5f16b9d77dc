// phi3.cc: Phi-3, Phi-3.5 and Phi-4 (Abdin et al., 2024): joint projections, which open_model()
// separates; part of a head turned; divisors for long contexts.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array phi3(Trace& t, const DecoderConfig& c) { return plain_decoder(t, c); }

// The magnitude of long-context angles is a key of its own.
void complete_phi3_gguf(DecoderConfig& c, const Metadata& metadata) {
  const double magnitude = metadata.number("phi3.rope.scaling.attn_factor").value_or(1);
  if (c.rope.scaling == RopeScaling::kNone) c.rope.attention_factor = magnitude;
  c.local_rope = c.rope;
}

}  // namespace veery
