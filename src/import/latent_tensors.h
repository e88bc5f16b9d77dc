// latent_tensors.h: the weights of attention on compressed keys and values.
#pragma once
#include "file/model_file.h"

namespace veery {

/// Takes attn_kv_b apart, as newer GGUF files have it: attn_k_b (heads, rank, plain), transposed,
/// and attn_v_b (heads, value, rank). Tensors must have our names. Throws kFormat naming a tensor
/// that does not fit the configuration.
void split_latent(ModelFile& file);

}  // namespace veery
