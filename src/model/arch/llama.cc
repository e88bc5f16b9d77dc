// llama.cc: Llama 1 to 3 (Touvron et al., 2023; Grattafiori et al., 2024), and Mistral, the same
// with a window on all layers (Jiang et al., 2023).
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c) { return plain_decoder(t, c); }

}  // namespace veery
