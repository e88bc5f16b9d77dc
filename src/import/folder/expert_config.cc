#include "import/folder/expert_config.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

// Returns the value of the first of `keys` that the file has, else of the first with a default,
// else 0.
int64_t size_of(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (fields.given(key)) return fields.size_or_zero(key);
  for (const char* key : keys)
    if (fields.has(key)) return fields.size_or_zero(key);
  return 0;
}

}  // namespace

void read_experts(const JsonFields& fields, TransformerConfig& c) {
  ExpertConfig& e = c.experts;
  if (!fields.flag_or("enable_moe_block", true)) return;
  e.count = static_cast<int32_t>(
      size_of(fields, {"num_local_experts", "num_experts", "n_routed_experts"}));
  const int64_t shared = size_of(fields, {"shared_intermediate_size"});
  if (e.count == 0 && shared > 0) c.feed_forward.hidden = shared;
  if (e.count == 0) return;
  e.hidden = size_of(fields, {"moe_intermediate_size"});
  if (e.hidden == 0) e.hidden = c.feed_forward.hidden;
  e.shared_hidden = shared > 0 ? shared : size_of(fields, {"shared_expert_intermediate_size"});
  const int64_t together = size_of(fields, {"moe_shared_expert_intermediate_size"});
  if (const int64_t parts = fields.size_or_zero("n_shared_experts"); parts > 0)
    e.shared_hidden = parts * e.hidden;
  if (together > 0) e.shared_hidden = together;
  e.latent = size_of(fields, {"moe_latent_size"});
  if (fields.has("intermediate_size_mlp")) {
    e.hidden = e.shared_hidden = c.feed_forward.hidden;
    c.feed_forward.hidden = fields.size("intermediate_size_mlp");
  }
  if (fields.has("prefix_dense_intermediate_size"))
    c.feed_forward.hidden = fields.size("prefix_dense_intermediate_size");
  e.route.used = static_cast<int32_t>(fields.size("num_experts_per_tok"));
  e.route.normalise = fields.flag_or("norm_topk_prob", false);
  e.route.scale = static_cast<float>(fields.number_or("routed_scaling_factor", 1));
  const std::string scores = fields.text_or("scoring_func", "softmax");
  if (scores != "softmax" && scores != "sigmoid")
    throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected softmax or sigmoid",
                fields.where(), fields.name("scoring_func"), printable(scores));
  e.route.sigmoid = scores == "sigmoid";
  if (fields.text_or("topk_method", "greedy") != "greedy" && fields.has("n_group")) {
    e.route.groups = static_cast<int32_t>(fields.size("n_group"));
    e.route.groups_used = static_cast<int32_t>(fields.size("topk_group"));
    if (e.route.groups > 1) e.route.group_best = e.route.sigmoid ? 2 : 1;
  }
  // Cohere 2 computes the softmax over the selected experts only.
  constexpr const char* kStrategy = "shared_expert_combination_strategy";
  if (const std::string strategy = fields.text_or(kStrategy, ""); !strategy.empty()) {
    if (strategy != "average" && strategy != "sum")
      throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected average or sum",
                  fields.where(), kStrategy, printable(strategy));
    if (!e.route.sigmoid) e.route.normalise = true;
    if (strategy == "average" && e.shared_hidden > 0) e.scale = 0.5F;
  }
  // Other families use such a key in training only. Jitter of 0 still treats equal scores as ties,
  // so a tiny positive number is used.
  if (c.architecture == "phimoe")
    e.route.jitter = std::max(static_cast<float>(fields.number("router_jitter_noise")),
                              std::numeric_limits<float>::min());
  e.moe.limit = static_cast<float>(fields.number_or("swiglu_limit", 0));
  e.moe.alpha = static_cast<float>(fields.number_or("swiglu_alpha", 1));
  check_experts(e, {fields.where(), fields.name("num_experts_per_tok"), fields.name("n_group"),
                    fields.name("topk_group")});
}

}  // namespace veery
