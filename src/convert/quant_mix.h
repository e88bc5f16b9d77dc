// quant_mix.h: chooses the type of each tensor when a model is quantised.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// An established mix of types ("Q4_K_M"), or a single type ("F16").
struct QuantMix {
  std::string_view name;
  DType type;         ///< type of tensors that no rule changes
  int64_t file_type;  ///< general.file_type
  std::string_view summary;
};
const std::vector<QuantMix>& quant_mixes();
/// Ignores case; Q3_K, Q4_K and Q5_K mean their M mixes. Throws kInput listing the valid names.
const QuantMix& find_quant_mix(std::string_view name);

/// Returns the first mix with the main type `type`; nullptr if there is none.
const QuantMix* find_quant_mix(DType type);

/// Sets the type of tensors whose names contain a match of a regular expression (PCRE).
struct TensorRule {
  std::string pattern;
  DType type;
};

struct QuantMixOptions {
  bool pure = false;        ///< ignore the rules of the mix
  bool importance = false;  ///< an importance matrix is available
  std::optional<DType> output, embedding;
  std::vector<TensorRule> rules;  ///< the first match wins
};

/// The target type of a tensor.
struct TensorPlan {
  DType type = DType::kF32;
  /// The intended type, if the tensor's rows do not fit its blocks.
  std::optional<DType> wanted;
};

/// Returns for each tensor of `file` (with GGUF names and metadata) its own type, except f32 for
/// 16-bit tensors that are never quantised, as readers of GGUF expect.
std::vector<TensorPlan> keep_types(const ModelFile& file);

/// Returns the types of a mix; tensors that are never quantised as above. Throws kFormat naming an
/// invalid pattern, kUnsupported for types that cannot be encoded.
std::vector<TensorPlan> plan_types(const ModelFile& file, const QuantMix& mix,
                                   const QuantMixOptions& options);

}  // namespace veery
