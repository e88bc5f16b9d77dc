// The rules of OpenAI's endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kModel[] = {
    kept("model"),
    kept("stream"),
    ignored("stream_options.include_obfuscation", "padding of events has no content"),
};

constexpr FieldRule kStreaming[] = {
    kept("stream_options"),
    kept("stream_options.include_usage"),
    refused("stream_options.continuous_usage_stats", "usage is in the last chunk only", "false"),
};

constexpr FieldRule kToolChoice[] = {
    kept("tools"),
    kept("tool_choice"),
    kept("parallel_tool_calls"),
};

constexpr FieldRule kChat[] = {
    kept("tools[].function.strict"),
    kept("messages"),
    kept("n"),
    kept("logprobs"),
    kept("top_logprobs"),
    kept("response_format"),
    kept("reasoning_effort"),
    kept("verbosity"),
    ignored("store", "answers of this endpoint are not stored"),
    ignored("prediction", "affects speed only"),
    refused("add_special_tokens", "the model determines whether BOS is added", "false"),
    refused("modalities", "answers are text only", R"(["text"])"),
    refused("audio", "answers are text only"),
    refused("web_search_options", "the server does not connect to other machines"),
    refused("functions", "deprecated by its API: use tools"),
    refused("function_call", "deprecated by its API: use tool_choice", R"("auto", "none")"),
    refused("moderation", "there is no moderation model"),
};

constexpr FieldRule kCompletion[] = {
    kept("prompt"),
    kept("n"),
    kept("best_of"),
    kept("suffix"),
    kept("logprobs"),
    kept("echo"),
    kept("response_format"),
    kept("return_tokens_as_token_ids"),
    refused("add_special_tokens", "the model determines whether BOS is added", "true"),
    refused("n_probs", "the field for completions is logprobs", "0"),
};

constexpr FieldRule kResponse[] = {
    kept("input"),
    kept("instructions"),
    kept("text"),
    kept("text.format"),
    kept("text.verbosity"),
    kept("reasoning"),
    kept("reasoning.effort"),
    ignored("reasoning.summary", "reasoning is returned in full, not as a summary"),
    ignored("reasoning.generate_summary", "reasoning is returned in full, not as a summary"),
    kept("include"),
    ignored("max_tool_calls", "limits calls of tools that a provider runs; veery runs none"),
    kept("store"),
    kept("top_logprobs"),
    kept("chat_template_kwargs"),
    kept("metadata"),
    refused("reasoning.mode", "the server has one mode", R"("standard", "default", "auto")"),
    ignored("reasoning.context", "the template determines which reasoning of the input is used"),
    kept("input[].type"),
    kept("input[].role"),
    kept("input[].content"),
    kept("input[].id"),
    kept("input[].call_id"),
    kept("input[].name"),
    kept("input[].namespace"),
    kept("input[].arguments"),
    kept("input[].input"),
    kept("input[].output"),
    kept("input[].error"),
    kept("input[].action"),
    kept("input[].operation"),
    kept("input[].tools"),
    kept("input[].summary"),
    kept("input[].encrypted_content"),
    ignored("input[].caller", "only the model calls tools"),
    ignored("input[].status", "items of the input are always complete"),
    ignored("input[].phase", "names the purpose of a text of the model"),
    ignored("input[].execution", "names the program that ran a call"),
    ignored("input[].metadata", "identifies the caller to a provider; does not reach the model"),
    kept("tools[].type"),
    kept("tools[].name"),
    kept("tools[].description"),
    kept("tools[].parameters"),
    kept("tools[].format"),
    kept("tools[].tools"),
    kept("tools[].defer_loading"),
    kept("tools[].output_schema"),
    refused("tools[].allowed_callers", "the server does not run code", R"(["direct"])"),
    kept("tools[].strict"),
    kept("truncation"),
    refused("background", "an answer is generated while its client waits", "false"),
    refused("conversation", "conversations are not stored: send the complete input"),
    refused("context_management", "an input is never truncated"),
    refused("prompt", "prompts are not stored: send instructions and input"),
    refused("moderation", "there is no moderation model"),
    kept("previous_response_id"),
};

constexpr FieldRule kEmbedding[] = {
    kept("model"),
    kept("input"),
    kept("encoding_format"),
    kept("dimensions"),
};

constexpr FieldRule kAudio[] = {
    kept("file"),
    kept("model"),
    kept("language"),
    kept("prompt"),
    kept("response_format"),
    kept("temperature"),
    kept("timestamp_granularities"),
    kept("chunking_strategy"),
    refused("include", "transcripts have no probabilities"),
    refused("keywords", "use prompt for words to expect"),
    refused("languages", "use language for a single language"),
    refused("known_speaker_names", "speakers are not distinguished"),
    refused("known_speaker_references", "speakers are not distinguished"),
    kept("stream"),
};

// Fields of tools that a provider runs, below "tools[].".
constexpr std::string_view kElsewhere =
    "belongs to a tool that a provider runs; such tools are left out";
constexpr FieldRule kHosted[] = {
    ignored("execution", kElsewhere),
    ignored("external_web_access", kElsewhere),
    ignored("indexed_web_access", kElsewhere),
    ignored("search_context_size", kElsewhere),
    ignored("search_content_types", kElsewhere),
    ignored("user_location", kElsewhere),
    ignored("filters", kElsewhere),
    ignored("image_settings", kElsewhere),
    ignored("container", kElsewhere),
    ignored("server_label", kElsewhere),
    ignored("server_url", kElsewhere),
    ignored("server_description", kElsewhere),
    ignored("connector_id", kElsewhere),
    ignored("authorization", kElsewhere),
    ignored("allowed_tools", kElsewhere),
    ignored("require_approval", kElsewhere),
    ignored("headers", kElsewhere),
    ignored("vector_store_ids", kElsewhere),
    ignored("max_num_results", kElsewhere),
    ignored("ranking_options", kElsewhere),
    ignored("background", kElsewhere),
    ignored("model", kElsewhere),
    ignored("quality", kElsewhere),
    ignored("size", kElsewhere),
    ignored("moderation", kElsewhere),
    ignored("output_format", kElsewhere),
    ignored("output_compression", kElsewhere),
    ignored("partial_images", kElsewhere),
    ignored("input_image_mask", kElsewhere),
    ignored("input_fidelity", kElsewhere),
    ignored("action", kElsewhere),
    ignored("display_height", kElsewhere),
    ignored("display_width", kElsewhere),
    ignored("environment", kElsewhere),
};

}  // namespace

const FieldRules& chat_rules() {
  static const FieldRules kRules("/v1/chat/completions", {{kModel},
                                                          {kStreaming},
                                                          {sampling_rules()},
                                                          {reasoning_rules()},
                                                          {account_rules()},
                                                          {vllm_rules()},
                                                          {llamacpp_rules()},
                                                          {template_field_rules()},
                                                          {kToolChoice},
                                                          {tool_rules(), "tools[]."},
                                                          {message_rules(), "messages[]."},
                                                          {kChat}});
  return kRules;
}

const FieldRules& completion_rules() {
  static const FieldRules kRules("/v1/completions", {{kModel},
                                                     {kStreaming},
                                                     {sampling_rules()},
                                                     {account_rules()},
                                                     {vllm_rules()},
                                                     {llamacpp_rules()},
                                                     {kCompletion}});
  return kRules;
}

const FieldRules& response_rules() {
  static const FieldRules kRules("/v1/responses", {{kModel},
                                                   {sampling_rules()},
                                                   {reasoning_rules()},
                                                   {account_rules()},
                                                   {kToolChoice},
                                                   {kHosted, "tools[]."},
                                                   {kResponse}});
  return kRules;
}

const FieldRules& embedding_rules() {
  static const FieldRules kRules("/v1/embeddings", {{account_rules()}, {kEmbedding}});
  return kRules;
}

const FieldRules& audio_rules() {
  static const FieldRules kRules("/v1/audio/transcriptions", {{account_rules()}, {kAudio}});
  return kRules;
}

}  // namespace veery::serve
