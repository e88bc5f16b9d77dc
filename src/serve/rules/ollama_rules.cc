// The rules of Ollama's endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kModel[] = {
    kept("model"),
    kept("name"),
};

constexpr std::string_view kTextOnly = "models read text only";
constexpr FieldRule kGeneration[] = {
    kept("keep_alive"),
    kept("stream"),
    kept("format"),
    kept("options"),
    kept("think"),
    kept("logprobs"),
    kept("top_logprobs"),
    refused("shift", "a full context ends the answer; the context is not shifted", "false"),
};

constexpr std::string_view kMachine = "the server's flags determine how a model is loaded";
constexpr std::string_view kNoShift = "a full context ends the answer; the context is not shifted";
constexpr FieldRule kOptions[] = {
    kept("num_ctx"),
    ignored("num_keep", kNoShift),
    ignored("num_batch", kMachine),
    ignored("num_gpu", kMachine),
    ignored("main_gpu", kMachine),
    ignored("num_thread", kMachine),
    ignored("num_gqa", kMachine),
    ignored("numa", kMachine),
    ignored("low_vram", kMachine),
    ignored("f16_kv", kMachine),
    ignored("use_mmap", kMachine),
    ignored("use_mlock", kMachine),
    ignored("vocab_only", kMachine),
    ignored("logits_all", kMachine),
    refused("penalize_newline", "penalties apply to every token", "true"),
    refused("tfs_z", "tail-free sampling is not supported", "1"),
    refused("rope_frequency_base", "the model's file determines RoPE", "0"),
    refused("rope_frequency_scale", "the model's file determines RoPE", "0, 1"),
};

constexpr FieldRule kChat[] = {
    kept("messages"),
    kept("tools"),
    ignored("tools[].function.strict", "this API does not constrain calls to a schema"),
    kept("truncate"),
};

constexpr FieldRule kChatMessages[] = {
    kept("tool_name"),
    refused("images", kTextOnly),
};

constexpr FieldRule kGenerate[] = {
    kept("prompt"),
    kept("suffix"),
    kept("system"),
    kept("raw"),
    kept("context"),
    refused("images", kTextOnly),
    refused("template",
            "Go templates are not supported: use /api/chat with the model's own template"),
    refused("truncate", "a prompt is never truncated", "false"),
    refused("width", "models write text only", "0"),
    refused("height", "models write text only", "0"),
    refused("steps", "models write text only", "0"),
};

constexpr FieldRule kEmbedding[] = {
    kept("keep_alive"),
    ignored("options", "sampling and machine options do not change embeddings"),
};

constexpr FieldRule kEmbed[] = {
    kept("input"),
    kept("dimensions"),
    kept("truncate"),
};

constexpr FieldRule kPrompt[] = {kept("prompt")};

constexpr FieldRule kShow[] = {
    ignored("verbose", "lists of tokens are never returned"),
    refused("system", "a model is shown without changes"),
    refused("template", "a model is shown without changes"),
    refused("options", "a model is shown without changes"),
};

}  // namespace

const FieldRules& ollama_show_rules() {
  static const FieldRules kRules("/api/show", {{kModel}, {kShow}});
  return kRules;
}

const FieldRules& ollama_chat_rules() {
  static const FieldRules kRules("/api/chat", {{kModel},
                                               {kGeneration},
                                               {sampling_rules(), "options."},
                                               {kOptions, "options."},
                                               {tool_rules(), "tools[]."},
                                               {message_rules(), "messages[]."},
                                               {kChatMessages, "messages[]."},
                                               {kChat}});
  return kRules;
}

const FieldRules& ollama_generate_rules() {
  static const FieldRules kRules("/api/generate", {{kModel},
                                                   {kGeneration},
                                                   {sampling_rules(), "options."},
                                                   {kOptions, "options."},
                                                   {kGenerate}});
  return kRules;
}

const FieldRules& ollama_embed_rules() {
  static const FieldRules kRules("/api/embed", {{kModel}, {kEmbedding}, {kEmbed}});
  return kRules;
}

const FieldRules& ollama_embeddings_rules() {
  static const FieldRules kRules("/api/embeddings", {{kModel}, {kEmbedding}, {kPrompt}});
  return kRules;
}

}  // namespace veery::serve
