// folder_rope.h: how config.json of transformers describes rotary positions.
#pragma once
#include <vector>

#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// The parameters of RoPE, of layers that see everything and of those with a window, with the keys
/// of transformers 5: rope_type and rope_theta are there, and partial_rotary_factor and
/// original_max_position_embeddings where they are said at all or belong to the type.
struct RopeSets {
  Json global, local;
  std::string where;  ///< the file, and the object that they come from
};
/// What transformers 5 takes of rope_parameters (one set, or one for each type of layer) and of the
/// older rope_scaling, rope_theta, rope_local_base_freq and partial_rotary_factor where several are
/// there: a rope_scaling that is not empty replaces rope_parameters, with the base in it, or, where
/// layers with a window have a set of their own, goes over that of the others; what a set has
/// itself goes before what stands beside it. Throws kFormat naming a key that is no object.
RopeSets rope_sets(const JsonFields& fields, const FolderType& type);

/// Fills in rope and local_rope. c.head_dim and c.context must be set; a context that scaling makes
/// longer becomes longer. Throws kUnsupported for a rope_type that is not known, kFormat for a
/// number that is missing or outside its range.
void read_rope(const JsonFields& fields, const FolderType& type, TransformerConfig& c);

/// What mscale_all_dim makes of queries and of keys; 1 where there is none.
double read_yarn_magnitude(const JsonFields& fields, const FolderType& type);

/// Divisors, one a pair: the two sets of longrope, or one set for all texts; empty: there are none.
struct RopeFactors {
  std::vector<float> shorter, longer, all;
};
/// Of `dims` dimensions of which the first `part` of the pairs turn, the others have a frequency of
/// (as good as) 0: what GGUF's converters write for such pairs.
inline constexpr float kStillDivisor = 1e30F;
std::vector<float> proportional_divisors(int32_t dims, double part);
bool has_rope_factors(const RopeSets& sets);
RopeFactors read_rope_factors(const RopeSets& sets, const TransformerConfig& c);

}  // namespace veery
