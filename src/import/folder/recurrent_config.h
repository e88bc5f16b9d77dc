// recurrent_config.h: reads the settings of recurrent layers in config.json.
#pragma once
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Fills in c.recurrent for layers of kind `mixer`. Throws kFormat or kUnsupported naming a key
/// that is missing, unknown or contradicts another one.
void read_recurrent(const JsonFields& fields, Mixer mixer, TransformerConfig& c);

/// Fills in c.multipliers. Throws kFormat naming a key that is not a valid factor.
void read_multipliers(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
