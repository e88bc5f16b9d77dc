// Rules that several endpoints share.
#include "sample/parameters.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

// Fields of generation that are not in the table of sampling parameters.
constexpr FieldRule kGeneration[] = {
    kept("dry_sequence_breakers"),
    kept("seed"),
    kept("logit_bias"),
    kept("stop"),
    kept("stop_token_ids"),
    kept("include_stop_str_in_output"),
    kept("ignore_eos"),
    kept("min_tokens"),
    kept("allowed_token_ids"),
    kept("bad_words"),
    kept("skip_special_tokens"),
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

constexpr std::string_view kAccount =
    "identifies the caller to a provider; does not reach the model";
constexpr std::string_view kCaching = "the prefix cache needs no hints";
constexpr FieldRule kAccountRules[] = {
    ignored("user", kAccount),
    ignored("metadata", kAccount),
    ignored("safety_identifier", kAccount),
    ignored("client_metadata", kAccount),
    ignored("prompt_cache_key", kCaching),
    ignored("prompt_cache_retention", kCaching),
    ignored("prompt_cache_options", kCaching),
    ignored("service_tier", "the server has one service tier"),
};

constexpr std::string_view kTextOnly = "models read text only";
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
    ignored("content[].annotations", "names the sources of the model's text"),
    ignored("content[].cache_control", kCaching),
    ignored("content[].prompt_cache_breakpoint", kCaching),
    ignored("cache_control", kCaching),
    kept("name"),
    kept("tool_calls"),
    kept("tool_call_id"),
    kept("reasoning_content"),
    kept("reasoning"),
    kept("thinking"),
    ignored("refusal", "repeats the content"),
    ignored("annotations", "names the sources of the model's text"),
    refused("audio", kTextOnly),
    refused("function_call", "deprecated by its API: use tool_calls"),
};

constexpr FieldRule kTools[] = {
    kept("type"),
    kept("function"),
    kept("function.name"),
    kept("function.description"),
    kept("function.parameters"),
    ignored("cache_control", kCaching),
};

constexpr FieldRule kTemplates[] = {
    kept("chat_template"),         kept("chat_template_kwargs"),   kept("documents"),
    kept("add_generation_prompt"), kept("continue_final_message"), kept("parse_special"),
};

constexpr std::string_view kDebug = "labels the request for its operator";
constexpr std::string_view kNoBeams = "beam search is not supported";
constexpr FieldRule kVllm[] = {
    kept("structured_outputs"),
    kept("structured_outputs.json"),
    kept("structured_outputs.regex"),
    kept("structured_outputs.choice"),
    kept("structured_outputs.grammar"),
    kept("structured_outputs.json_object"),
    refused("structured_outputs.structural_tag", "structural tags are not supported"),
    refused("structured_outputs.whitespace_pattern", "JSON is always written on one line"),
    ignored("structured_outputs.disable_fallback", "the server has one grammar compiler"),
    ignored("structured_outputs.disable_any_whitespace", "JSON is always written on one line"),
    ignored("structured_outputs.disable_additional_properties", "schemas are never changed"),
    kept("guided_json"),
    kept("guided_regex"),
    kept("guided_choice"),
    kept("guided_grammar"),
    refused("guided_whitespace_pattern", "JSON is always written on one line"),
    ignored("guided_decoding_backend", "the server has one grammar compiler"),
    kept("truncate_prompt_tokens"),
    refused("prompt_logprobs", "use echo and logprobs of /v1/completions"),
    refused("return_token_ids", "use return_tokens of /completion", "false"),
    refused("return_tokens_as_token_ids", "only /v1/completions writes tokens as ids", "false"),
    refused("prompt_embeds", "prompts must be texts or token ids"),
    refused("detokenize", "an answer is always text", "true"),
    ignored("spaces_between_special_tokens", "tokens are decoded without added spaces"),
    refused("use_beam_search", kNoBeams, "false"),
    refused("length_penalty", kNoBeams, "1"),
    refused("early_stopping", kNoBeams, "false"),
    refused("best_of", "no additional answers are generated", "1"),
    refused("echo", "the answer of a chat does not repeat the prompt", "false"),
    refused("include_reasoning", "reasoning is separate from the content", "true"),
    refused("add_special_tokens", "the model determines whether BOS is added"),
    refused("logits_processors", "the server does not run code of requests"),
    refused("vllm_xargs", "arguments of another server's plug-ins"),
    refused("mm_processor_kwargs", "models read text only"),
    ignored("request_id", kDebug),
    ignored("priority", "the order of requests does not change answers"),
    ignored("cache_salt", "the prefix cache does not change answers"),
    ignored("kv_transfer_params", "KV caches of other servers are not read"),
};

constexpr std::string_view kSlots = "the slot does not change the answer";
constexpr std::string_view kNoShift = "a full context ends the answer; the context is not shifted";
constexpr std::string_view kProgress = "does not affect the answer";
constexpr FieldRule kLlamaCpp[] = {
    kept("grammar"),
    kept("json_schema"),
    refused("grammar_lazy", "a grammar applies from the first token after reasoning", "false"),
    ignored("grammar_triggers", "a grammar applies from the first token after reasoning"),
    refused(
        "samplers", "penalties and filters have a fixed order (docs/server.md)",
        R"(["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc","temperature"], )"
        R"(["dry","top_k","typ_p","top_p","min_p","xtc","temperature"])"),
    refused("min_keep", "filters keep at least one token", "0, 1"),
    refused("n_indent", "a minimum indent is not supported", "0"),
    refused("lora", "LoRA adapters are not supported"),
    refused("n_probs", "the fields for chats are logprobs and top_logprobs", "0"),
    refused("post_sampling_probs", "probabilities are those of the model", "false"),
    refused("return_tokens", "only /completion returns token ids", "false"),
    refused("response_fields", "only /completion omits parts of its answer"),
    refused("t_max_predict_ms", "only /completion has a time limit", "0, -1"),
    refused("reasoning_format", "reasoning is separate from the content", R"("auto", "deepseek")"),
    refused("parse_tool_calls", "calls are always parsed", "true"),
    ignored("thinking_forced_open", "the template determines whether reasoning is open"),
    ignored("cache_prompt", "the prefix cache does not change answers"),
    ignored("n_cache_reuse", "the prefix cache does not change answers"),
    ignored("id_slot", kSlots),
    ignored("slot_id", kSlots),
    ignored("n_keep", kNoShift),
    ignored("n_discard", kNoShift),
    ignored("timings_per_token", kProgress),
    ignored("return_progress", kProgress),
    ignored("sse_ping_interval", kProgress),
    ignored("backend_sampling", "sampling on a device gives the tokens of the CPU"),
};

}  // namespace

std::span<const FieldRule> sampling_rules() {
  static const std::vector<FieldRule> all = [] {
    std::vector<FieldRule> rules(std::begin(kGeneration), std::end(kGeneration));
    for (const SamplingParameter& parameter : sampling_parameters())
      for (const std::string_view field : parameter.fields()) rules.push_back(kept(field));
    return rules;
  }();
  return all;
}
std::span<const FieldRule> reasoning_rules() { return kReasoning; }
std::span<const FieldRule> account_rules() { return kAccountRules; }
std::span<const FieldRule> message_rules() { return kMessages; }
std::span<const FieldRule> tool_rules() { return kTools; }
std::span<const FieldRule> template_field_rules() { return kTemplates; }
std::span<const FieldRule> vllm_rules() { return kVllm; }
std::span<const FieldRule> llamacpp_rules() { return kLlamaCpp; }

std::span<const FieldRules* const> all_rules() {
  static const FieldRules* const kAll[] = {
      &chat_rules(),
      &completion_rules(),
      &response_rules(),
      &message_api_rules(),
      &count_tokens_rules(),
      &ollama_chat_rules(),
      &ollama_generate_rules(),
      &llama_completion_rules(),
      &llama_infill_rules(),
      &embedding_rules(),
      &audio_rules(),
      &rerank_rules(),
      &classify_rules(),
      &inspect_rules(),
      &tokenize_rules(),
      &detokenize_rules(),
      &template_rules(),
      &ollama_show_rules(),
      &ollama_embed_rules(),
      &ollama_embeddings_rules(),
      &llama_embedding_rules(),
  };
  return kAll;
}

}  // namespace veery::serve
