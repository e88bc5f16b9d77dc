// recurrent_names.h: tensors of recurrent layers under the names that GGUF has for them.
#pragma once
#include "file/model_file.h"
#include "model/config.h"

namespace veery {

/// Turns what arrange_recurrent made of `file`, a folder of configuration `c`, into names, shapes
/// and orders of llama.cpp's converters: projections of one input joint, convolutions (channels,
/// width), and value heads tiled over key heads where its graph repeats these as a whole. xLSTM
/// keeps its names. Throws kUnsupported naming a tensor that GGUF has no place for.
void name_recurrent(ModelFile& file, const TransformerConfig& c);

/// Puts the factors of `c` on parts of layers, embedding and logits into the weights, for which
/// GGUF has no keys; a head that is the embedding then becomes one of its own. Nothing is done
/// where the architecture has no such factors.
void fold_multipliers(ModelFile& file, const TransformerConfig& c);

}  // namespace veery
