// folder_rope.h: how config.json of transformers describes rotary positions.
#pragma once
#include <vector>

#include "model/config.h"
#include "model/json_fields.h"

namespace veery {

/// Fills in rope and local_rope from rope_parameters (one set, or one for each type of layer), else
/// from rope_theta, rope_local_base_freq and rope_scaling, which is not for local layers if
/// `local_unscaled`. c.head_dim and c.context must be set; a
/// context that scaling makes longer becomes longer. Throws kUnsupported for a rope_type that is
/// not known.
void read_rope(const JsonFields& fields, bool local_unscaled, DecoderConfig& c);

/// What mscale_all_dim makes of queries and of keys; 1 where there is none.
double read_yarn_magnitude(const JsonFields& fields);

/// The divisors of longrope, one a pair; both empty where there are none.
struct RopeFactors {
  std::vector<float> shorter, longer;
};
bool has_rope_factors(const JsonFields& fields);
RopeFactors read_rope_factors(const JsonFields& fields, const DecoderConfig& c);

}  // namespace veery
