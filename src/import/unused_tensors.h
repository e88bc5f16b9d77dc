// unused_tensors.h: what a file holds and its model does not use.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "model/config.h"

namespace veery {

/// Names of tensors that no parameter of a definition stands for, each in one of the lists.
struct UnusedTensors {
  /// Of layers behind the last one that the configuration has: one of the two is wrong.
  std::vector<std::string> beyond;
  /// Nobody knows what they are for.
  std::vector<std::string> unknown;
  /// Of other parts (vision, prediction of further tokens), and what is no weight of its own.
  std::vector<std::string> other_parts;
};

/// `graph`: the definition of `config`, traced for `file` (trace_definition).
UnusedTensors unused_tensors(const ModelFile& file, const TransformerConfig& config,
                             const Graph& graph);

/// The definition of a model, traced; which parts it has is found from the file's tensors.
Graph trace_definition(const ModelFile& file, const TransformerConfig& config);

/// The layer of "blk.3.attn_q.weight" and its part, "attn_q.weight"; -1: of no layer, and the whole
/// name.
std::pair<int64_t, std::string> layer_part(const std::string& name);

/// What the file calls the number of layers.
std::string layers_key(const ModelFile& file, const TransformerConfig& config);

/// Throws kFormat, naming the number of layers and a tensor, if the file has layers behind those of
/// the configuration other than such as predict further tokens: what a model computes without some
/// of its layers makes no sense.
void refuse_further_layers(const ModelFile& file, const TransformerConfig& config);

/// Throws kUnsupported naming tensors that nobody knows what they are for: without them a model may
/// compute something else.
void refuse_unknown_tensors(const ModelFile& file, const TransformerConfig& config);

}  // namespace veery
