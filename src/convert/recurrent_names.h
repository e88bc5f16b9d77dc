// recurrent_names.h: converts tensors of recurrent layers to GGUF's names and layout.
#pragma once
#include "file/model_file.h"
#include "model/config.h"

namespace veery {

/// Converts the output of arrange_recurrent() for `file`, a folder with configuration `c`, to the
/// names, shapes and row orders of llama.cpp's converters: joint projections of the same input,
/// convolutions (channels, width), and value heads tiled over key heads if llama.cpp's graph
/// repeats key heads as a whole. xLSTM keeps its names. Throws kUnsupported naming a tensor that
/// GGUF cannot represent.
void name_recurrent(ModelFile& file, const TransformerConfig& c);

/// Folds the multipliers of `c` on parts of layers, embedding and logits into the weights, because
/// GGUF has no keys for them; a tied output head becomes a separate tensor. Does nothing for other
/// architectures.
void fold_multipliers(ModelFile& file, const TransformerConfig& c);

}  // namespace veery
