// config.cc: checks for settings that contradict each other, or that no published model of the
// architecture has.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "base/printable.h"
#include "verify/parts.h"

namespace veery {
namespace {

// A property of all published models of an architecture. Their weights are in
// model/weight_rules.cc.
struct Fact {
  std::string_view architecture;
  std::string_view what;
  bool (*holds)(const TransformerConfig&);
  std::string_view hint;
};

bool has_no_caps(const TransformerConfig& c) {
  return c.attention.softcap == 0 && c.output.softcap == 0;
}

constexpr Fact kFacts[] = {
    {"gemma2", "a soft cap of attention scores",
     [](const TransformerConfig& c) { return c.attention.softcap > 0; },
     "missing soft cap: attn_logit_softcapping is 50 in published models"},
    {"gemma2", "a soft cap of logits",
     [](const TransformerConfig& c) { return c.output.softcap > 0; },
     "missing soft cap: final_logit_softcapping is 30 in published models"},
    {"gemma2", "layers with a window",
     [](const TransformerConfig& c) { return c.attention.window > 0; },
     "the size of the sliding window is missing"},
    {"gemma3", "no soft caps", has_no_caps, "the configuration is that of Gemma 2"},
    {"gemma4", "a soft cap of logits",
     [](const TransformerConfig& c) { return c.output.softcap > 0; },
     "missing soft cap: final_logit_softcapping is 30 in published models"},
    {"gemma4", "layers with a window",
     [](const TransformerConfig& c) { return c.attention.window > 0; },
     "the size of the sliding window is missing"},
};

void check_facts(const TransformerConfig& config, Report& report) {
  std::vector<std::string> broken;
  std::string hint;
  for (const Fact& fact : kFacts) {
    if (fact.architecture != config.architecture || fact.holds(config)) continue;
    broken.emplace_back(fact.what);
    hint += (hint.empty() ? "" : "; ") + std::string(fact.hint);
  }
  if (broken.empty())
    report.ok("architecture", config.architecture);
  else
    report.add({"architecture", CheckState::kWarn,
                fmt::format("a {} model without: {}", config.architecture, some_of(broken)),
                "what published models have", hint});
}

const Json* member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

// Returns the vocabulary size stated in config.json or the metadata.
std::optional<int64_t> stated_vocabulary(const ModelFile& file, const TransformerConfig& config) {
  if (!file.config) return file.metadata.integer(config.architecture + ".vocab_size");
  for (const Json* object : {&*file.config, member(*file.config, "text_config")}) {
    const Json* value = object == nullptr ? nullptr : member(*object, "vocab_size");
    if (value != nullptr && value->is_number_integer()) return value->get<int64_t>();
  }
  return std::nullopt;
}

void check_vocabulary(const ModelFile& file, const TransformerConfig& config, Report& report) {
  const std::optional<int64_t> said = stated_vocabulary(file, config);
  if (said && *said != config.vocab)
    report.add({"vocabulary", CheckState::kWarn,
                fmt::format("the embedding has {} rows", config.vocab),
                fmt::format("{}, as the configuration says", *said),
                "tokens were added or removed on one side only"});
  else
    report.ok("vocabulary", fmt::format("{} rows of the embedding", config.vocab));
}

struct Range {
  std::string_view what;
  double value, low, high;
};

void check_ranges(const TransformerConfig& c, Report& report) {
  const double usual = 1 / std::sqrt(static_cast<double>(c.attention.head_dim));
  const double theta = c.positions.rope.dims > 0 ? c.positions.rope.theta : 1e4;
  const Range ranges[] = {{"norm epsilon", c.norms.eps, 1e-13, 1e-2},
                          {"RoPE base", theta, 1e2, 1e10},
                          {"attention scale", c.attention.scale, usual / 64, usual * 64},
                          {"embedding scale", c.input.scale, 1e-2, 1e4},
                          {"residual scale", c.residual.scale, 1e-2, 1e2},
                          {"logit scale", c.output.scale, 1e-4, 1e2},
                          {"RoPE factor", c.positions.rope.factor, 1, 1e4}};
  std::vector<std::string> odd;
  for (const Range& range : ranges)
    if (!(range.value >= range.low && range.value <= range.high))
      odd.push_back(fmt::format("{} {:.3g} (usual: {:.3g} to {:.3g})", range.what, range.value,
                                range.low, range.high));
  if (c.attention.window > c.context)
    odd.push_back(fmt::format("window {} (context: {})", c.attention.window, c.context));
  if (odd.empty())
    report.ok("numbers",
              fmt::format("{} layers of width {}, {} heads of {}, {} for keys, context {}",
                          c.layers, c.dim, c.attention.heads, c.attention.head_dim,
                          c.attention.kv_heads, c.context));
  else
    report.add({"numbers", CheckState::kWarn, some_of(odd), "usual sizes",
                "a key of the configuration is wrong or read as another unit"});
}

}  // namespace

void check_config(const ModelFile& file, const TransformerConfig& config, Report& report) {
  check_facts(config, report);
  check_vocabulary(file, config, report);
  check_ranges(config, report);
}

}  // namespace veery
