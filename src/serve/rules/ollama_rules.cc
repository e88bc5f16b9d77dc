// The rules of Ollama's endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kModel[] = {
    kept("model"),
    kept("name"),
};

constexpr FieldRule kGeneration[] = {
    kept("keep_alive"),
    kept("stream"),
    kept("format"),
    kept("options"),
};

constexpr FieldRule kChat[] = {
    kept("messages"),
    kept("tools"),
    kept("think"),
};

constexpr FieldRule kGenerate[] = {
    kept("prompt"),
    kept("system"),
    kept("raw"),
};

constexpr FieldRule kEmbed[] = {
    kept("input"),
    kept("dimensions"),
    kept("keep_alive"),
};

}  // namespace

const FieldRules& ollama_show_rules() {
  static const FieldRules kRules("/api/show", {{kModel}});
  return kRules;
}

const FieldRules& ollama_chat_rules() {
  static const FieldRules kRules(
      "/api/chat", {{kModel}, {kGeneration}, {sampling_rules(), "options."}, {kChat}});
  return kRules;
}

const FieldRules& ollama_generate_rules() {
  static const FieldRules kRules(
      "/api/generate", {{kModel}, {kGeneration}, {sampling_rules(), "options."}, {kGenerate}});
  return kRules;
}

const FieldRules& ollama_embed_rules() {
  static const FieldRules kRules("/api/embed", {{kModel}, {kEmbed}});
  return kRules;
}

}  // namespace veery::serve
