// xlstm_tensors.h: converts blocks of the package `xlstm` to the form of definitions.
#pragma once
#include "file/model_file.h"

namespace veery {

/// Converts a folder with our names: adds 1 to norms, reshapes convolutions to [width, channels],
/// block-diagonal matrices to [columns, columns of a block], recurrent weights to [head size, 4 *
/// channels], and splits joint feed-forward parts. Throws kFormat naming a tensor of another shape.
void arrange_xlstm_blocks(ModelFile& file);

}  // namespace veery
