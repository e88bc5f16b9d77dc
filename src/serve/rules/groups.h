// groups.h: rules that several endpoints share, and the rules of each endpoint.
#pragma once
#include <span>

#include "serve/rules/field_rules.h"

namespace veery::serve {

/// Sampling, as read_options() reads it.
std::span<const FieldRule> sampling_rules();
/// The budget of reasoning, as limit_reasoning() reads it.
std::span<const FieldRule> reasoning_rules();
/// Names, billing and storage at a provider: nothing that reaches the model.
std::span<const FieldRule> account_rules();
/// Messages in OpenAI's form, below "messages[].".
std::span<const FieldRule> message_rules();
/// Functions in OpenAI's form, below "tools[].".
std::span<const FieldRule> tool_rules();
/// How a chat template is rendered, as read_template_fields() reads it.
std::span<const FieldRule> template_field_rules();
/// Fields of vLLM's and llama.cpp's generation requests that OpenAI's do not have.
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
