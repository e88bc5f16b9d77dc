// The rules of Anthropic's endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr std::string_view kCaching = "the prefix cache works without hints";
constexpr std::string_view kCaller = "names the caller to a provider, never reaches the model";
constexpr std::string_view kNoTools = "the server runs no tools";

constexpr FieldRule kPrompt[] = {
    kept("model"),
    kept("messages"),
    kept("system"),
    kept("tools"),
    kept("tool_choice"),
    kept("tool_choice.type"),
    kept("tool_choice.name"),
    kept("tool_choice.disable_parallel_tool_use"),
    kept("thinking"),
    kept("thinking.type"),
    kept("thinking.budget_tokens"),
    kept("thinking.display"),
    kept("output_config"),
    kept("output_config.effort"),
    kept("output_config.format"),
    refused("output_config.task_budget", "veery counts tokens of one answer only"),
    kept("output_format"),
    kept("context_management"),
    kept("context_management.edits"),
    kept("chat_template_kwargs"),
    ignored("cache_control", kCaching),
    ignored("betas", "names of features, which are on where they are supported"),
    ignored("inference_geo", "there is one place"),
    ignored("speed", "there is one speed"),
    ignored("user_profile_id", kCaller),
    ignored("workspace_id", kCaller),
    ignored("billing_policy", kCaller),
    ignored("fallback_credit_token", kCaller),
    refused("compaction", "a conversation is not summarised here"),
    refused("thread", "conversations are not stored"),
    ignored("diagnostics", "asks for statistics of a provider"),
    refused("mcp_servers", "the server reaches no other machine"),
    refused("container", "the server runs no code"),
    refused("fallbacks", "one model answers a request"),
};

// Below "messages[].", and below "system[]." as far as it applies.
constexpr FieldRule kBlocks[] = {
    kept("role"),
    kept("content"),
    kept("content[].type"),
    kept("content[].text"),
    kept("content[].id"),
    kept("content[].name"),
    kept("content[].input"),
    kept("content[].source"),
    kept("content[].title"),
    kept("content[].context"),
    kept("content[].content"),
    kept("content[].tool_use_id"),
    kept("content[].is_error"),
    kept("content[].tool_name"),
    kept("content[].thinking"),
    kept("content[].signature"),
    ignored("content[].data", "encrypted reasoning, which its provider alone can read"),
    ignored("content[].toolset_name", "says where a tool came from"),
    ignored("content[].caller", "tools are called by the model only"),
    ignored("content[].citations", "says where a text came from"),
    ignored("content[].cache_control", kCaching),
};

constexpr FieldRule kSystem[] = {
    kept("type"),
    kept("text"),
    ignored("citations", "says where a text came from"),
    ignored("cache_control", kCaching),
};

constexpr FieldRule kTools[] = {
    kept("type"),
    kept("name"),
    kept("description"),
    kept("input_schema"),
    kept("input_examples"),
    kept("defer_loading"),
    kept("strict"),
    ignored("eager_input_streaming", "inputs are streamed as they are made"),
    ignored("cache_control", kCaching),
    refused("allowed_callers", kNoTools, R"(["direct"])"),
};

constexpr FieldRule kMessage[] = {
    kept("stream"),
    kept("stop_sequences"),
};

}  // namespace

const FieldRules& message_api_rules() {
  static const FieldRules kRules("/v1/messages", {{sampling_rules()},
                                                  {reasoning_rules()},
                                                  {account_rules()},
                                                  {kPrompt},
                                                  {kMessage},
                                                  {kTools, "tools[]."},
                                                  {kSystem, "system[]."},
                                                  {kBlocks, "messages[]."}});
  return kRules;
}

const FieldRules& count_tokens_rules() {
  static const FieldRules kRules("/v1/messages/count_tokens", {{account_rules()},
                                                               {kPrompt},
                                                               {kTools, "tools[]."},
                                                               {kSystem, "system[]."},
                                                               {kBlocks, "messages[]."}});
  return kRules;
}

}  // namespace veery::serve
