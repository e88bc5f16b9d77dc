// unused_tensors.h: finds tensors of a file that its model does not use.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "model/config.h"

namespace veery {

/// Names of tensors that no parameter of the definition refers to; each is in one of the lists.
struct UnusedTensors {
  /// Tensors of layers beyond the configured number: file and configuration contradict each other.
  std::vector<std::string> beyond;
  /// Tensors of unknown purpose.
  std::vector<std::string> unknown;
  /// Tensors of other parts (vision, MTP), and entries that are not weights.
  std::vector<std::string> other_parts;
};

/// `graph` is the definition of `config`, traced for `file` (trace_definition).
UnusedTensors unused_tensors(const ModelFile& file, const TransformerConfig& config,
                             const Graph& graph);

/// Traces the definition of a model. Optional parts depend on the tensors of the file.
Graph trace_definition(const ModelFile& file, const TransformerConfig& config);

/// Throws kFormat, naming the tensor, if the file lacks a weight of its architecture, has an
/// optional weight in some layers only, or has a bias, norm or gate that its architecture lacks.
void refuse_wrong_weights(const ModelFile& file, const TransformerConfig& config);

/// Splits "blk.3.attn_q.weight" into layer 3 and "attn_q.weight"; returns -1 and the whole name for
/// tensors outside layers.
std::pair<int64_t, std::string> layer_part(const std::string& name);

/// Returns the name of the layer count in the file.
std::string layers_key(const ModelFile& file, const TransformerConfig& config);

/// Throws kFormat, naming the layer count and a tensor, if the file has layers beyond the
/// configured number other than MTP layers, because a model with missing layers computes nonsense.
void refuse_surplus_layers(const ModelFile& file, const TransformerConfig& config);

/// Throws kUnsupported naming tensors of unknown purpose, because the model may compute something
/// else without them.
void refuse_unknown_tensors(const ModelFile& file, const TransformerConfig& config);

}  // namespace veery
