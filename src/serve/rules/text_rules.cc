// The rules of endpoints for texts, scores and tokens.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kRerank[] = {
    kept("model"),
    kept("query"),
    kept("documents"),
    kept("texts"),
    kept("top_n"),
    kept("return_documents"),
    kept("instruction"),
    kept("rank_fields"),
    refused("return_text", "use return_documents", "false"),
    refused("raw_scores", "raw scores are not supported", "false"),
    refused("max_chunks_per_doc", "a document is never split"),
    refused("max_tokens_per_doc", "documents are truncated to the model's limit"),
    refused("truncate_prompt_tokens", "documents are truncated to the model's limit"),
    ignored("priority", "the order of requests does not change answers"),
};

constexpr FieldRule kClassify[] = {
    kept("model"), kept("input"), kept("labels"), kept("form"), kept("raw"), kept("mean"),
};

constexpr FieldRule kInspect[] = {
    kept("model"),  kept("input"), kept("tokens"), kept("what"),
    kept("layers"), kept("heads"), kept("top"),
};

constexpr FieldRule kTokenize[] = {
    kept("model"),
    kept("content"),
    kept("prompt"),
    kept("add_special"),
    kept("add_special_tokens"),
    kept("parse_special"),
    kept("with_pieces"),
};

constexpr FieldRule kDetokenize[] = {kept("model"), kept("tokens")};

constexpr FieldRule kTemplate[] = {
    kept("model"),
    kept("messages"),
    kept("tools"),
    ignored("tools[].function.strict", "no template uses it"),
};

}  // namespace

const FieldRules& rerank_rules() {
  static const FieldRules kRules("/v1/rerank", {{account_rules()}, {kRerank}});
  return kRules;
}

const FieldRules& classify_rules() {
  static const FieldRules kRules("/v1/classify", {{account_rules()}, {kClassify}});
  return kRules;
}

const FieldRules& inspect_rules() {
  static const FieldRules kRules("/v1/inspect", {{kInspect}});
  return kRules;
}

const FieldRules& tokenize_rules() {
  static const FieldRules kRules("/v1/tokenize", {{kTokenize}});
  return kRules;
}

const FieldRules& detokenize_rules() {
  static const FieldRules kRules("/v1/detokenize", {{kDetokenize}});
  return kRules;
}

const FieldRules& template_rules() {
  static const FieldRules kRules("/v1/apply-template", {{kTemplate},
                                                        {template_field_rules()},
                                                        {tool_rules(), "tools[]."},
                                                        {message_rules(), "messages[]."}});
  return kRules;
}

}  // namespace veery::serve
