// latent_tensors.h: splits the weights of multi-head latent attention (MLA).
#pragma once
#include "file/model_file.h"

namespace veery {

/// Splits attn_kv_b into the tensors of newer GGUF files: attn_k_b (heads, rank, plain),
/// transposed, and attn_v_b (heads, value, rank). Tensors must already have GGUF names. Throws
/// kFormat naming a tensor that does not match the configuration.
void split_latent(ModelFile& file);

}  // namespace veery
