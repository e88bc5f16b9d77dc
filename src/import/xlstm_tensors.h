// xlstm_tensors.h: blocks of the package `xlstm` as definitions have them.
#pragma once
#include "file/model_file.h"

namespace veery {

/// Of a folder with our names: one is added to norms, convolutions are [width, channels], matrices
/// of blocks [columns, columns of a block], recurrent weights [head size, 4 * channels], joint
/// feed-forward parts two. Throws kFormat naming a tensor of another shape.
void arrange_xlstm_blocks(ModelFile& file);

}  // namespace veery
