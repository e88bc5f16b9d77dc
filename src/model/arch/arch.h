// arch.h: the definitions, one file each.
#pragma once
#include "model/config.h"
#include "model/trace.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c);

Array qwen(Trace& t, const DecoderConfig& c);

Array gemma(Trace& t, const DecoderConfig& c);
Array gemma2(Trace& t, const DecoderConfig& c);
Array gemma3(Trace& t, const DecoderConfig& c);
void complete_gemma(DecoderConfig& c);
void complete_gemma2_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_gemma3_gguf(DecoderConfig& c, const Metadata& metadata);

Array phi3(Trace& t, const DecoderConfig& c);
void complete_phi3_gguf(DecoderConfig& c, const Metadata& metadata);

}  // namespace veery
