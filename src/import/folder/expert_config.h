// expert_config.h: reads the mixture-of-experts settings of config.json.
#pragma once
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Fills in c.experts, and c.feed_forward.hidden if the file states the width of dense layers
/// separately. Throws kFormat naming file and key if numbers are missing or inconsistent.
void read_experts(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
