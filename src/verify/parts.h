// parts.h: the individual checks of verify().
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/model.h"
#include "graph/graph.h"
#include "verify/reference.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace veery {

using VerifyProgress = decltype(VerifyOptions::progress);

/// Checks tensors: all that `graph` requires exist in the right shapes, all layers have the same
/// optional parts, and no tensor is unused.
void check_tensors(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                   Report& report);

/// Checks the configuration for contradictions, and against known properties of the architecture.
void check_config(const ModelFile& file, const TransformerConfig& config, Report& report);

/// Checks the values of all weights: finite, not constant, of usual magnitude, and norms close to
/// typical norms.
void check_values(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                  ThreadPool& pool, Report& report, const VerifyProgress& progress);

/// `rows` is the number of embedding rows; 0 if unknown.
void check_tokenizer(const Tokenizer& tokenizer, int64_t rows, Report& report);

void check_template(const Tokenizer& tokenizer, const std::string& source, Report& report);

/// Runs the model: outputs must be finite, independent of chunking and dependent on the context,
/// and predict plain English better than chance.
void check_runs(Model& model, Report& report);

/// Checks that texts are tokenised to the ids of the reference, and that tokens and end tokens are
/// the recorded ones.
void check_vocabulary(const Tokenizer& tokenizer, const ReferenceVocabulary& reference,
                      Report& report);

/// Returns a few sentences of plain English.
std::string_view plain_english();

}  // namespace veery
