// The rules of llama.cpp's own endpoints.
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kAnswer[] = {
    kept("model"),
    kept("prompt"),
    kept("stream"),
    kept("n_probs"),
    kept("n_cmpl"),
    kept("return_tokens"),
    kept("response_fields"),
    kept("t_max_predict_ms"),
    kept("timings_per_token"),
    kept("response_format"),
    refused("truncate_prompt_tokens", "a prompt is never truncated"),
};

constexpr FieldRule kInfill[] = {
    kept("input_prefix"),
    kept("input_suffix"),
    kept("input_extra"),
};

constexpr FieldRule kEmbedding[] = {
    kept("model"),
    kept("content"),
    kept("input"),
    kept("embd_normalize"),
};

}  // namespace

const FieldRules& llama_completion_rules() {
  static const FieldRules kRules(
      "/completion", {{sampling_rules()}, {vllm_rules()}, {llamacpp_rules()}, {kAnswer}});
  return kRules;
}

const FieldRules& llama_infill_rules() {
  static const FieldRules kRules(
      "/infill", {{sampling_rules()}, {vllm_rules()}, {llamacpp_rules()}, {kAnswer}, {kInfill}});
  return kRules;
}

const FieldRules& llama_embedding_rules() {
  static const FieldRules kRules("/embedding", {{kEmbedding}});
  return kRules;
}

}  // namespace veery::serve
