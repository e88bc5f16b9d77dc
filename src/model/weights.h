// weights.h: which weights a file must contain, and which it may lack.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Names within a layer or of the whole model, without the suffix ".weight": "attn_q_norm",
/// "attn_q.bias", "output_norm.bias". A component of digits is written "*": "dense.*.bias".
using WeightNames = std::vector<std::string_view>;

/// The weights that shared layers read only if a row lists them. All other weights that a
/// definition reads are required.
struct WeightRules {
  std::string_view architecture;
  /// Parts that all of its models have.
  WeightNames required = {};
  /// Parts that some of its models have: in all layers of a kind or in none.
  WeightNames optional = {};
  /// Parts that only some layers of a kind have.
  WeightNames by_layer = {};
  /// Parts that some of its models have: all of these in all layers, or none of them.
  WeightNames together = {};
};

/// Returns the rules of an architecture of the registry (weight_rules.cc).
const WeightRules& weight_rules(std::string_view architecture);

/// The weights of the file that a definition is traced for. Remembers the first contradiction
/// between the file and the rules.
class Weights {
 public:
  /// No file, and a model without any of the parts.
  Weights() = default;
  /// No file: the model has the required parts only.
  explicit Weights(const WeightRules& rules) : rules_(&rules) {}
  /// `file` must outlive the object.
  Weights(const WeightRules& rules, const ModelFile& file);

  /// Returns whether the model has a part; `name` includes ".weight" or ".bias", and `scope` is
  /// "blk.3.", "enc.blk.3." or empty. If it returns true, the layer must have the part.
  bool has(const std::string& scope, const std::string& name);
  /// Records that the definition reads a tensor.
  void require(const std::string& tensor);
  /// Throws kFormat naming the first tensor that the file lacks, or that the architecture does not
  /// have.
  void check() const;

 private:
  bool contains(const std::string& tensor) const { return tensors_.contains(tensor); }
  /// `pattern` names the parts that are there together, in all layers.
  bool has_uniform(const std::string& tensor, const std::string& pattern);
  void report(std::string problem);

  struct Seen {
    std::string tensor;
    bool present = false;
  };

  const WeightRules* rules_ = nullptr;
  const ModelFile* file_ = nullptr;
  std::unordered_set<std::string_view> tensors_;  // of the file
  std::map<std::string, Seen> seen_;  // optional parts, in the first layer that may have them
  std::string problem_;
};

}  // namespace veery
