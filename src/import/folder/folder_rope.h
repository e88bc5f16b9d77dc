// folder_rope.h: reads the rotary position settings of config.json.
#pragma once
#include <vector>

#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// RoPE parameters of layers with full attention and of layers with a window, with the keys of
/// transformers 5. rope_type and rope_theta are always set; partial_rotary_factor and
/// original_max_position_embeddings only if stated or required by the type.
struct RopeSets {
  Json global, local;
  std::string where;  ///< the file and the object that they come from, for messages
};
/// Resolves rope_parameters (one set, or one per type of layer) and the older rope_scaling,
/// rope_theta, rope_local_base_freq and partial_rotary_factor as transformers 5 does. A non-empty
/// rope_scaling replaces rope_parameters, including its base; if layers with a window have their
/// own set, it is merged into the set of the other layers. Values within a set take precedence over
/// top-level ones. Throws kFormat naming a key that is not an object.
RopeSets rope_sets(const JsonFields& fields, const FolderType& type);

/// Fills in rope and local_rope. c.attention.head_dim and c.context must be set; scaling may
/// increase c.context. Throws kUnsupported for an unknown rope_type, kFormat for a number that is
/// missing or out of range.
void read_rope(const JsonFields& fields, const FolderType& type, TransformerConfig& c);

/// Returns the factor that mscale_all_dim applies to queries and keys; 1 if there is none.
double read_yarn_magnitude(const JsonFields& fields, const FolderType& type);

/// Frequency divisors, one per pair: two sets for longrope, or one for all context lengths; empty
/// if there are none.
struct RopeFactors {
  std::vector<float> shorter, longer, all;
};
/// Divisor for pairs that do not rotate, as written by GGUF's converters; makes their frequency
/// practically 0. proportional_divisors() returns the divisors of `dims` dimensions of which the
/// first `part` of the pairs rotate.
inline constexpr float kStillDivisor = 1e30F;
std::vector<float> proportional_divisors(int32_t dims, double part);
bool has_rope_factors(const RopeSets& sets);
RopeFactors read_rope_factors(const RopeSets& sets, const TransformerConfig& c);

}  // namespace veery
