// expert_config.h: what config.json says of mixtures of experts.
#pragma once
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Fills in c.experts, and c.hidden where the file gives the width of dense layers apart. Throws
/// kFormat, naming file and key, if numbers are missing or do not fit together.
void read_experts(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
