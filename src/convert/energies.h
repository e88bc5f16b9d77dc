// energies.h: how large the inputs of a model's matrices are, as far as its weights say it.
#pragma once
#include "base/thread_pool.h"
#include "file/gguf/imatrix.h"
#include "file/model_file.h"

namespace veery {

/// Of the matrices that a norm feeds (queries, keys, values, gate, up, the output head) about the
/// mean square of each input column, up to a common factor, as an importance matrix has it from
/// texts. Of decoders with RMS norms before both parts of a layer and gated dense feed-forward
/// parts, by their names in GGUF; of others nothing. Does not depend on the number of threads.
ImportanceMatrix estimate_importance(const ModelFile& file, ThreadPool& pool);

}  // namespace veery
