// arch.h: the definitions, one file each.
#pragma once
#include "model/config.h"
#include "model/trace.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c);
void complete_llama(DecoderConfig& c, const Metadata& metadata);

Array gemma3(Trace& t, const DecoderConfig& c);
void complete_gemma3(DecoderConfig& c, const Metadata& metadata);

}  // namespace veery
