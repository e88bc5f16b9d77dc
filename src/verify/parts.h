// parts.h: the parts that verify() puts together.
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

/// Tensors: those that `graph` needs, in their shapes, the same optional parts in all layers,
/// nothing left over.
void check_tensors(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                   Report& report);

/// Numbers of the configuration that contradict one another or what is known of the architecture.
void check_config(const ModelFile& file, const TransformerConfig& config, Report& report);

/// The weights themselves, all of them: finite, not empty, of usual size; norms near what norms
/// are.
void check_values(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                  ThreadPool& pool, Report& report, const VerifyProgress& progress);

/// `rows`: of the embedding; 0 if that is not known.
void check_tokenizer(const Tokenizer& tokenizer, int64_t rows, Report& report);

void check_template(const Tokenizer& tokenizer, const std::string& source, Report& report);

/// What the model computes: finite, the same however it is run, depending on what was said before,
/// and better than chance on plain English.
void check_runs(Model& model, Report& report);

/// Whether texts have the ids of a reference, and tokens and ends of an answer are those recorded.
void check_vocabulary(const Tokenizer& tokenizer, const ReferenceVocabulary& reference,
                      Report& report);

/// A few sentences of plain English.
std::string_view plain_english();

}  // namespace veery
