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
    ignored("cache_control", kCaching),
};

constexpr FieldRule kTemplates[] = {
    kept("chat_template"),         kept("chat_template_kwargs"),   kept("documents"),
    kept("add_generation_prompt"), kept("continue_final_message"), kept("parse_special"),
};

constexpr std::string_view kDebug = "names or files the request for its operator";
constexpr std::string_view kNoBeams = "there is no beam search";
constexpr FieldRule kVllm[] = {
    kept("structured_outputs"),
    kept("structured_outputs.json"),
    kept("structured_outputs.regex"),
    kept("structured_outputs.choice"),
    kept("structured_outputs.grammar"),
    kept("structured_outputs.json_object"),
    refused("structured_outputs.structural_tag", "forms that begin at a tag are not compiled"),
    refused("structured_outputs.whitespace_pattern", "JSON is written on one line"),
    ignored("structured_outputs.disable_fallback", "there is one compiler of grammars"),
    ignored("structured_outputs.disable_any_whitespace", "JSON is written on one line"),
    ignored("structured_outputs.disable_additional_properties", "schemas are kept as they are"),
    kept("guided_json"),
    kept("guided_regex"),
    kept("guided_choice"),
    kept("guided_grammar"),
    refused("guided_whitespace_pattern", "JSON is written on one line"),
    ignored("guided_decoding_backend", "there is one compiler of grammars"),
    kept("truncate_prompt_tokens"),
    refused("prompt_logprobs", "/v1/completions gives them with echo and logprobs"),
    refused("return_token_ids", "/completion gives them with return_tokens", "false"),
    refused("return_tokens_as_token_ids", "/v1/completions alone writes tokens so", "false"),
    refused("prompt_embeds", "prompts are texts or token ids"),
    refused("detokenize", "an answer is a text", "true"),
    ignored("spaces_between_special_tokens", "tokens are written as they are, without spaces"),
    refused("use_beam_search", kNoBeams, "false"),
    refused("length_penalty", kNoBeams, "1"),
    refused("early_stopping", kNoBeams, "false"),
    refused("best_of", "one answer is made for each that is given", "1"),
    refused("echo", "the prompt of a chat is not text of its answer", "false"),
    refused("include_reasoning", "reasoning stands beside the content", "true"),
    refused("add_special_tokens", "BOS stands where the model wants it"),
    refused("logits_processors", "the server runs no code of requests"),
    refused("vllm_xargs", "arguments of plug-ins of another server"),
    refused("mm_processor_kwargs", "models here read text only"),
    ignored("request_id", kDebug),
    ignored("priority", "an order among requests changes no answer"),
    ignored("cache_salt", "the prefix cache gives the same answer"),
    ignored("kv_transfer_params", "the KV cache of another server is not read"),
};

constexpr std::string_view kSlots = "every sequence gives the same answer";
constexpr std::string_view kNoShift = "a full context ends the answer, nothing is moved";
constexpr std::string_view kProgress = "says nothing of the answer";
constexpr FieldRule kLlamaCpp[] = {
    kept("grammar"),
    kept("json_schema"),
    refused("grammar_lazy", "a grammar holds from the first token after reasoning on", "false"),
    ignored("grammar_triggers", "a grammar holds from the first token after reasoning on"),
    refused(
        "samplers", "penalties and filters act in one order, which docs/server.md tells",
        R"(["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc","temperature"], )"
        R"(["dry","top_k","typ_p","top_p","min_p","xtc","temperature"])"),
    refused("min_keep", "filters keep one token at least", "0, 1"),
    refused("n_indent", "lines are not indented by force", "0"),
    refused("lora", "adapters are not loaded"),
    refused("n_probs", "chats have logprobs and top_logprobs", "0"),
    refused("post_sampling_probs", "probabilities are those of the model", "false"),
    refused("return_tokens", "/completion gives token ids", "false"),
    refused("response_fields", "/completion alone leaves parts of its answer out"),
    refused("t_max_predict_ms", "/completion alone has a limit of time", "0, -1"),
    refused("reasoning_format", "reasoning stands beside the content", R"("auto", "deepseek")"),
    refused("parse_tool_calls", "calls are always read", "true"),
    ignored("thinking_forced_open", "the template tells whether reasoning is open"),
    ignored("cache_prompt", "the prefix cache gives the same answer"),
    ignored("n_cache_reuse", "the prefix cache gives the same answer"),
    ignored("id_slot", kSlots),
    ignored("slot_id", kSlots),
    ignored("n_keep", kNoShift),
    ignored("n_discard", kNoShift),
    ignored("timings_per_token", kProgress),
    ignored("return_progress", kProgress),
    ignored("sse_ping_interval", kProgress),
    ignored("backend_sampling", "a device draws the tokens that the CPU draws"),
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
