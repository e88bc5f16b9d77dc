// energies.h: estimates the magnitude of the inputs of weight matrices from the weights alone.
#pragma once
#include "base/thread_pool.h"
#include "file/gguf/imatrix.h"
#include "file/model_file.h"

namespace veery {

/// Estimates the mean square of each input column of the matrices that follow a norm (queries,
/// keys, values, gate, up, output head), up to a common factor, as a substitute for an importance
/// matrix collected on text. Supports decoders with RMS norms before both parts of a layer and
/// gated dense feed-forward parts, with GGUF names; returns an empty matrix for others. The result
/// does not depend on the number of threads.
ImportanceMatrix estimate_importance(const ModelFile& file, ThreadPool& pool);

}  // namespace veery
