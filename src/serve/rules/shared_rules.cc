// Rules that several endpoints share.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kSampling[] = {
    kept("temperature"),
    kept("top_p"),
    kept("top_k"),
    kept("min_p"),
    kept("typical_p"),
    kept("top_n_sigma"),
    kept("xtc_probability"),
    kept("xtc_threshold"),
    kept("repeat_penalty"),
    kept("repetition_penalty"),
    kept("repeat_last_n"),
    kept("presence_penalty"),
    kept("frequency_penalty"),
    kept("dry_multiplier"),
    kept("dry_base"),
    kept("dry_allowed_length"),
    kept("dry_penalty_last_n"),
    kept("dry_sequence_breakers"),
    kept("dynatemp_range"),
    kept("dynatemp_exponent"),
    kept("mirostat"),
    kept("mirostat_tau"),
    kept("mirostat_eta"),
    kept("seed"),
    kept("logit_bias"),
    kept("stop"),
    kept("ignore_eos"),
    kept("max_tokens"),
    kept("max_completion_tokens"),
    kept("max_output_tokens"),
    kept("n_predict"),
    kept("num_predict"),
};

constexpr FieldRule kReasoning[] = {
    kept("thinking_budget_tokens"),
    kept("thinking_token_budget"),
};

constexpr std::string_view kAccount = "names the caller to a provider, never reaches the model";
constexpr std::string_view kCaching = "the prefix cache works without hints";
constexpr FieldRule kAccountRules[] = {
    ignored("user", kAccount),
    ignored("metadata", kAccount),
    ignored("safety_identifier", kAccount),
    ignored("client_metadata", kAccount),
    ignored("prompt_cache_key", kCaching),
    ignored("prompt_cache_retention", kCaching),
    ignored("prompt_cache_options", kCaching),
    ignored("service_tier", "there is one tier"),
};

constexpr std::string_view kTextOnly = "models here read text only";
constexpr FieldRule kMessages[] = {
    kept("role"),
    kept("content"),
    kept("content[].type"),
    kept("content[].text"),
    kept("content[].refusal"),
    refused("content[].image_url", kTextOnly),
    refused("content[].input_audio", kTextOnly),
    refused("content[].audio_url", kTextOnly),
    refused("content[].video_url", kTextOnly),
    refused("content[].file", kTextOnly),
    ignored("content[].annotations", "says where a text of the model came from"),
    ignored("content[].cache_control", kCaching),
    ignored("content[].prompt_cache_breakpoint", kCaching),
    ignored("cache_control", kCaching),
    kept("name"),
    kept("tool_calls"),
    kept("tool_call_id"),
    kept("reasoning_content"),
    kept("reasoning"),
    kept("thinking"),
    ignored("refusal", "repeats what content says"),
    ignored("annotations", "says where a text of the model came from"),
    refused("audio", kTextOnly),
    refused("function_call", "deprecated by its API: use tool_calls"),
};

constexpr FieldRule kTools[] = {
    kept("type"),
    kept("function"),
    kept("function.name"),
    kept("function.description"),
    kept("function.parameters"),
    ignored("function.strict", "forced calls keep to the schema in any case"),
    ignored("cache_control", kCaching),
};

constexpr FieldRule kVllm[] = {
    ignored("request_id", "names the request in a log"),
};

constexpr FieldRule kLlamaCpp[] = {
    ignored("cache_prompt", "the prefix cache gives the same answer"),
};

}  // namespace

std::span<const FieldRule> sampling_rules() { return kSampling; }
std::span<const FieldRule> reasoning_rules() { return kReasoning; }
std::span<const FieldRule> account_rules() { return kAccountRules; }
std::span<const FieldRule> message_rules() { return kMessages; }
std::span<const FieldRule> tool_rules() { return kTools; }
std::span<const FieldRule> vllm_rules() { return kVllm; }
std::span<const FieldRule> llamacpp_rules() { return kLlamaCpp; }

std::span<const FieldRules* const> all_rules() {
  static const FieldRules* const kAll[] = {
      &chat_rules(),         &completion_rules(),  &response_rules(),        &message_api_rules(),
      &count_tokens_rules(), &ollama_chat_rules(), &ollama_generate_rules(), &embedding_rules(),
      &audio_rules(),        &rerank_rules(),      &classify_rules(),        &inspect_rules(),
      &tokenize_rules(),     &detokenize_rules(),  &template_rules(),        &ollama_show_rules(),
      &ollama_embed_rules(),
  };
  return kAll;
}

}  // namespace veery::serve
