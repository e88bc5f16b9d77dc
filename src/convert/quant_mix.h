// quant_mix.h: which type each tensor of a model gets when it is quantised.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// A mix of types by the name that people know ("Q4_K_M"), or one type for all ("F16").
struct QuantMix {
  std::string_view name;
  DType type;         ///< of what no rule raises
  int64_t file_type;  ///< general.file_type
  std::string_view summary;
};
const std::vector<QuantMix>& quant_mixes();
/// Case is ignored; Q3_K, Q4_K and Q5_K are their M mixes. Throws kInput naming those there are.
const QuantMix& find_quant_mix(std::string_view name);

/// The first mix that is made of `type`; nullptr: there is none.
const QuantMix* find_quant_mix(DType type);

/// A type for the tensors whose names a regular expression (PCRE) finds a match in.
struct TensorRule {
  std::string pattern;
  DType type;
};

struct QuantMixOptions {
  bool pure = false;        ///< no tensor is raised
  bool importance = false;  ///< there is an importance matrix
  std::optional<DType> output, embedding;
  std::vector<TensorRule> rules;  ///< the first that matches counts
};

/// What a tensor becomes.
struct TensorPlan {
  DType type = DType::kF32;
  /// The type that was due, where rows of the tensor do not fit its blocks.
  std::optional<DType> wanted;
};

/// Of each tensor of `file` (names and metadata of GGUF): its own type; f32 for those that are
/// never quantised and have 16 bits, as readers of GGUF expect.
std::vector<TensorPlan> keep_types(const ModelFile& file);

/// The same for a mix: tensors that are never quantised are as above. Throws kFormat naming a
/// pattern that is none, kUnsupported for types that floats are not encoded to.
std::vector<TensorPlan> plan_types(const ModelFile& file, const QuantMix& mix,
                                   const QuantMixOptions& options);

}  // namespace veery
