// The rules of Anthropic's endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr std::string_view kCaching = "the prefix cache needs no hints";
constexpr std::string_view kCaller =
    "identifies the caller to a provider; does not reach the model";
constexpr std::string_view kNoTools = "the server does not run tools";

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
    ignored("betas", "names features, which are always on if supported"),
    ignored("inference_geo", "the server has one location"),
    ignored("speed", "the server has one speed"),
    ignored("user_profile_id", kCaller),
    ignored("workspace_id", kCaller),
    ignored("billing_policy", kCaller),
    ignored("fallback_credit_token", kCaller),
    refused("compaction", "veery does not summarise conversations"),
    refused("thread", "conversations are not stored"),
    ignored("diagnostics", "requests statistics of a provider"),
    refused("mcp_servers", "the server does not connect to other machines"),
    refused("container", "the server does not run code"),
    refused("fallbacks", "exactly one model answers a request"),
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
    ignored("content[].data", "encrypted reasoning, which only its provider can read"),
    ignored("content[].toolset_name", "names the origin of a tool"),
    ignored("content[].caller", "only the model calls tools"),
    ignored("content[].citations", "names the source of a text"),
    ignored("content[].cache_control", kCaching),
};

constexpr FieldRule kSystem[] = {
    kept("type"),
    kept("text"),
    ignored("citations", "names the source of a text"),
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
    ignored("eager_input_streaming", "inputs are always streamed"),
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
