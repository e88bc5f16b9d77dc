// groups.h: rules that several endpoints share, and the rules of each endpoint.
#pragma once
#include <span>

#include "serve/rules/field_rules.h"

namespace veery::serve {

/// Sampling options, for read_options().
std::span<const FieldRule> sampling_rules();
/// The budget of reasoning, for limit_reasoning().
std::span<const FieldRule> reasoning_rules();
/// Names, billing and storage at a provider, which do not affect the model.
std::span<const FieldRule> account_rules();
/// Messages in the format of OpenAI, below "messages[].".
std::span<const FieldRule> message_rules();
/// Functions in the format of OpenAI, below "tools[].".
std::span<const FieldRule> tool_rules();
/// Options of chat templates, for read_template_fields().
std::span<const FieldRule> template_field_rules();
/// Fields of generation requests that vLLM and llama.cpp have, but not OpenAI.
std::span<const FieldRule> vllm_rules();
std::span<const FieldRule> llamacpp_rules();

const FieldRules& chat_rules();
const FieldRules& completion_rules();
const FieldRules& response_rules();
const FieldRules& message_api_rules();
const FieldRules& count_tokens_rules();
const FieldRules& embedding_rules();
const FieldRules& audio_rules();
const FieldRules& rerank_rules();
const FieldRules& classify_rules();
const FieldRules& inspect_rules();
const FieldRules& tokenize_rules();
const FieldRules& detokenize_rules();
const FieldRules& template_rules();
const FieldRules& ollama_show_rules();
const FieldRules& ollama_chat_rules();
const FieldRules& ollama_generate_rules();
const FieldRules& ollama_embed_rules();
const FieldRules& ollama_embeddings_rules();
const FieldRules& llama_completion_rules();
const FieldRules& llama_infill_rules();
const FieldRules& llama_embedding_rules();

/// Returns the rules of every endpoint that takes a body; those that generate text come first.
std::span<const FieldRules* const> all_rules();

}  // namespace veery::serve
