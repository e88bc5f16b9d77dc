#include "verify/hypotheses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/weights.h"
#include "verify/tensor_changes.h"

namespace veery {
namespace {

using Table = std::vector<Hypothesis>;
using ConfigChange = std::function<void(TransformerConfig&)>;

class Builder {
 public:
  explicit Builder(const Model& model) : file_(model.file()), config_(model.config()) {}

  void config(std::string defect, std::string when, ConfigChange change) {
    table_.push_back(
        {std::move(defect), std::move(when),
         [change = std::move(change)](ModelFile&, TransformerConfig& c) { change(c); }});
  }
  /// Adds a hypothesis that applies `change` to the tensors of these parts.
  void tensors(std::string defect, std::string when, std::vector<std::string> parts,
               TensorChange change) {
    if (std::ranges::none_of(parts, [&](const auto& part) { return has_part(file_, part); }))
      return;
    table_.push_back(
        {std::move(defect), std::move(when),
         [parts = std::move(parts), change = std::move(change)](
             ModelFile& file, TransformerConfig&) { change_parts(file, parts, change); }});
  }
  void file(std::string defect, std::string when, Model::Change change) {
    table_.push_back({std::move(defect), std::move(when), std::move(change)});
  }
  void ids(std::string defect, std::string when, IdEdit edit) {
    table_.push_back(
        {std::move(defect), std::move(when), [](ModelFile&, TransformerConfig&) {}, edit});
  }
  const ModelFile& file() const { return file_; }
  const TransformerConfig& config() const { return config_; }
  Table take() { return std::move(table_); }

 private:
  const ModelFile& file_;
  const TransformerConfig& config_;
  Table table_;
};

// Whether models of the architecture may lack a part, given as "attn_q.bias" or
// "attn_sinks.weight", and have all other parts.
bool may_lack(const TransformerConfig& c, std::string_view part) {
  constexpr std::string_view kSuffix = ".weight";
  if (part.ends_with(kSuffix)) part.remove_suffix(kSuffix.size());
  return std::ranges::find(weight_rules(c.architecture).optional, part) !=
         weight_rules(c.architecture).optional.end();
}

void add_pairing(Builder& b) {
  const TransformerConfig& c = b.config();
  if (c.positions.rope.dims == 0) return;
  b.config("wrong RoPE pairing",
           c.positions.interleaved
               ? "RoPE pairs are split halves of a head (i, i + d/2): the rows of Q "
                 "and K in this file are not permuted"
               : "RoPE pairs are interleaved (2i, 2i + 1): the rows of Q and K "
                 "in this file are permuted",
           [](TransformerConfig& d) { d.positions.interleaved = !d.positions.interleaved; });
  struct Kind {
    const char* what;
    std::vector<std::string> parts;
  };
  const Kind kinds[] = {
      {"Q and K", {"attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias"}},
      {"Q", {"attn_q.weight", "attn_q.bias"}},
      {"K", {"attn_k.weight", "attn_k.bias"}}};
  for (const bool to_neighbours : {c.positions.interleaved, !c.positions.interleaved})
    for (const auto& [what, parts] : kinds)
      b.tensors("wrong RoPE pairing",
                fmt::format("the rows of {} are permuted from {}", what,
                            to_neighbours ? "split to interleaved" : "interleaved to split"),
                parts, pair_order(c, to_neighbours));
}

// Adds RoPE scalings with common factors and common original context lengths.
void add_scaling(Builder& b) {
  const TransformerConfig& c = b.config();
  struct Kind {
    RopeScaling scaling;
    const char* name;
  };
  constexpr Kind kKinds[] = {{RopeScaling::kLinear, "linearly"},
                             {RopeScaling::kLlama3, "as in Llama 3"},
                             {RopeScaling::kYarn, "with YaRN"}};
  constexpr int32_t kShortest = 16, kLongest = 1 << 16;
  for (const auto& [scaling, name] : kKinds)
    for (const double factor : {8.0, 4.0, 32.0, 2.0, 16.0})
      for (int32_t from = kShortest; from <= std::min(c.context, kLongest); from *= 2) {
        const bool linear = scaling == RopeScaling::kLinear;
        if (linear && from > kShortest) break;
        const std::string length = linear ? "" : fmt::format(" from {} positions", from);
        b.config("missing or wrong RoPE scaling",
                 fmt::format("RoPE is scaled {} by {}{}", name, factor, length),
                 [=, scaling = scaling](TransformerConfig& d) {
                   const bool same =
                       d.attention.window == 0 || d.positions.local_rope == d.positions.rope;
                   d.positions.rope.scaling = scaling;
                   d.positions.rope.factor = factor;
                   d.positions.rope.original_context = from;
                   d.positions.rope.attention_factor =
                       scaling == RopeScaling::kYarn ? yarn_magnitude(factor, 1) : 1;
                   if (same) d.positions.local_rope = d.positions.rope;
                 });
      }
}

void add_rope(Builder& b) {
  const TransformerConfig& c = b.config();
  if (c.positions.rope.dims == 0) return;
  const bool freqs = has_part(b.file(), "rope_freqs.weight");
  const bool factors = has_part(b.file(), "rope_factors_short.weight");
  if (c.positions.rope.scaling != RopeScaling::kNone || freqs || factors)
    b.file("unexpected RoPE scaling", "RoPE has no scaling",
           [](ModelFile& file, TransformerConfig& d) {
             drop_parts(file, {"rope_freqs.weight", "rope_factors_short.weight",
                               "rope_factors_long.weight"});
             d.positions.rope.scaling = d.positions.local_rope.scaling = RopeScaling::kNone;
             d.positions.rope.attention_factor = d.positions.local_rope.attention_factor = 1;
           });
  for (const double theta : {1e4, 5e5, 1e6, 1e5, 1e7, 5e6, 1.5e5, 5e4, 8e6}) {
    const std::string when = fmt::format("the RoPE base is {:.0f}", theta);
    if (theta != c.positions.rope.theta)
      b.config("wrong RoPE base", when + fmt::format(", not {:.0f}", c.positions.rope.theta),
               [theta](TransformerConfig& d) {
                 if (d.positions.local_rope.theta == d.positions.rope.theta)
                   d.positions.local_rope.theta = theta;
                 d.positions.rope.theta = theta;
               });
    if (c.attention.window > 0 && !c.attention.local.empty() &&
        theta != c.positions.local_rope.theta)
      b.config("wrong RoPE base in layers with a window",
               when + fmt::format(", not {:.0f}", c.positions.local_rope.theta),
               [theta](TransformerConfig& d) { d.positions.local_rope.theta = theta; });
    if (c.attention.window > 0 && theta != c.positions.rope.theta)
      b.config("wrong RoPE base in layers with full attention",
               when + fmt::format(", not {:.0f}", c.positions.rope.theta),
               [theta](TransformerConfig& d) { d.positions.rope.theta = theta; });
  }
  if (!freqs && !factors) add_scaling(b);
  if (c.positions.rope.attention_factor != 1)
    b.config("wrong RoPE magnitude", "RoPE has magnitude 1", [](TransformerConfig& d) {
      d.positions.rope.attention_factor = d.positions.local_rope.attention_factor = 1;
    });
  if (!(c.positions.local_rope == c.positions.rope))
    b.config("unexpected RoPE in layers with a window", "RoPE is the same in all layers",
             [](TransformerConfig& d) { d.positions.local_rope = d.positions.rope; });
  for (const int part : {1, 2, 4})
    if (c.positions.rope.dims != c.attention.head_dim / part &&
        c.attention.head_dim / part % 2 == 0 && !freqs && !factors)
      b.config("wrong number of rotated dimensions",
               fmt::format("RoPE rotates {} of {} dimensions", c.attention.head_dim / part,
                           c.attention.head_dim),
               [part](TransformerConfig& d) {
                 d.positions.rope.dims = d.positions.local_rope.dims = d.attention.head_dim / part;
               });
  if (!c.positions.unrotated.empty())
    b.config("unexpected layers without RoPE", "all layers have RoPE",
             [](TransformerConfig& d) { d.positions.unrotated.clear(); });
}

// A numeric setting and the values found in models; 0 means absent, if the setting can be absent.
struct FloatRow {
  const char* present;  ///< name of the defect if the setting should be absent, or nullptr
  const char* missing;  ///< name of the defect if another value is right
  const char* what;
  float& (*member)(TransformerConfig&);
  std::vector<double> values;
};

void add_floats(Builder& b) {
  TransformerConfig c = b.config();
  const double dim = static_cast<double>(c.dim);
  const double head = c.attention.head_dim;
  const FloatRow rows[] = {{"unexpected soft cap",
                            "missing soft cap",
                            "soft cap of logits",
                            [](TransformerConfig& d) -> float& { return d.output.softcap; },
                            {0, 30, 50, 15}},
                           {"unexpected soft cap",
                            "missing soft cap",
                            "soft cap of attention scores",
                            [](TransformerConfig& d) -> float& { return d.attention.softcap; },
                            {0, 50, 30, 15}},
                           {nullptr,
                            "wrong embedding scale",
                            "embedding scale",
                            [](TransformerConfig& d) -> float& { return d.input.scale; },
                            {1, std::sqrt(dim), 12}},
                           {nullptr,
                            "wrong attention scale",
                            "attention scale",
                            [](TransformerConfig& d) -> float& { return d.attention.scale; },
                            {1 / std::sqrt(head), std::sqrt(c.attention.heads / dim),
                             1 / std::sqrt(dim), 1 / head, 1, 1.0 / 16}},
                           {nullptr,
                            "wrong logit scale",
                            "logit scale",
                            [](TransformerConfig& d) -> float& { return d.output.scale; },
                            {1, 0.0625, 0.125}},
                           {nullptr,
                            "wrong residual scale",
                            "residual scale",
                            [](TransformerConfig& d) -> float& { return d.residual.scale; },
                            {1}},
                           {nullptr,
                            "wrong norm epsilon",
                            "norm epsilon",
                            [](TransformerConfig& d) -> float& { return d.norms.eps; },
                            {1e-5, 1e-6, 1e-8, 1e-12, 1e-3}}};
  for (const FloatRow& row : rows)
    for (const double value : row.values) {
      const float now = row.member(c);
      const auto wanted = static_cast<float>(value);
      if (wanted == now) continue;
      const bool none = value == 0;
      b.config(none ? row.present : row.missing,
               none ? fmt::format("there is no {}", row.what)
                    : fmt::format("the {} is {}, not {}", row.what, number_text(value),
                                  now == 0 ? "absent" : number_text(now)),
               [member = row.member, wanted](TransformerConfig& d) { member(d) = wanted; });
    }
}

void add_norms(Builder& b) {
  const std::vector<std::string> heads{"attn_q_norm.weight", "attn_k_norm.weight"};
  const std::vector<std::string> others{"attn_norm.weight", "ffn_norm.weight", "output_norm.weight",
                                        "post_attention_norm.weight", "post_ffw_norm.weight"};
  std::vector<std::string> all = others;
  all.insert(all.end(), heads.begin(), heads.end());
  struct Kind {
    const char* what;
    const std::vector<std::string>* parts;
  };
  const bool some = has_part(b.file(), heads[0]);
  for (const float addend : {1.0F, -1.0F})
    for (const auto& [what, parts] : {Kind{"norms", &all}, Kind{"per-head norms", &heads},
                                      Kind{"norms except per-head norms", &others}}) {
      if (parts != &all && !some) continue;
      b.tensors(addend > 0 ? "norms without the 1 of (1 + w)" : "norms with the 1 of (1 + w) twice",
                fmt::format("1 is {} the weights of all {}",
                            addend > 0 ? "added to" : "subtracted from", what),
                *parts, added(addend));
    }
  for (const float addend : {1.0F, -1.0F})
    for (const std::string& part : all)
      b.tensors(addend > 0 ? "norms without the 1 of (1 + w)" : "norms with the 1 of (1 + w) twice",
                fmt::format("1 is {} {}", addend > 0 ? "added to" : "subtracted from", part),
                {part}, added(addend));
  if (some && may_lack(b.config(), heads[0]))
    b.file("unexpected norms of queries and keys", "queries and keys have no norms",
           [heads](ModelFile& file, TransformerConfig&) { drop_parts(file, heads); });
  struct Pair {
    const char *one, *other;
  };
  for (const auto& [one, other] : {Pair{"attn_norm.weight", "ffn_norm.weight"},
                                   Pair{"ffn_norm.weight", "post_attention_norm.weight"},
                                   Pair{"ffn_norm.weight", "post_ffw_norm.weight"},
                                   Pair{"post_attention_norm.weight", "post_ffw_norm.weight"},
                                   Pair{"attn_q_norm.weight", "attn_k_norm.weight"}}) {
    if (!can_swap(b.file(), one, other)) continue;
    b.file("swapped tensors", fmt::format("{} and {} are swapped", one, other),
           [one = one, other = other](ModelFile& file, TransformerConfig&) {
             swap_parts(file, one, other);
           });
  }
}

void add_activation(Builder& b) {
  struct Kind {
    Activation activation;
    const char* name;
  };
  constexpr Kind kKinds[] = {{Activation::kGelu, "GELU (tanh approximation)"},
                             {Activation::kGeluErf, "GELU (exact)"},
                             {Activation::kSilu, "SiLU"},
                             {Activation::kRelu, "ReLU"},
                             {Activation::kReluSquared, "squared ReLU"}};
  for (const auto& [activation, name] : kKinds)
    if (activation != b.config().feed_forward.activation)
      b.config("wrong activation", fmt::format("the activation is {}", name),
               [activation = activation](TransformerConfig& d) {
                 d.feed_forward.activation = activation;
               });
}

// Returns patterns of layers with a window: all, all except every n-th, or all from some layer on
// (Qwen 2).
std::vector<std::pair<std::string, std::vector<bool>>> window_patterns(const TransformerConfig& c) {
  std::vector<std::pair<std::string, std::vector<bool>>> patterns;
  const auto layers = static_cast<size_t>(c.layers);
  patterns.emplace_back("all layers have", std::vector<bool>(layers, true));
  for (const int32_t period : {2, 6, 4, 3, 5})
    if (period <= c.layers)
      patterns.emplace_back(fmt::format("all layers except every {} have",
                                        period == 2   ? "2nd"
                                        : period == 3 ? "3rd"
                                                      : fmt::format("{}th", period)),
                            local_pattern(c.layers, period));
  for (size_t first = 1; first < layers; ++first) {
    std::vector<bool> local(layers, false);
    std::fill(local.begin() + static_cast<ptrdiff_t>(first), local.end(), true);
    patterns.emplace_back(fmt::format("layers from {} on have", first), std::move(local));
  }
  return patterns;
}

// The first position whose logits differ shows the window size, if the reference recorded all
// positions.
void add_missing_window(Builder& b, int32_t first) {
  if (first < 1 || first > b.config().context) return;
  const auto add = [&](int32_t size, const std::string& who, const std::vector<bool>& local) {
    b.config("missing window", fmt::format("{} a window of {}", who, size),
             [=](TransformerConfig& d) {
               d.attention.window = size;
               d.attention.local = local;
             });
  };
  const auto patterns = window_patterns(b.config());
  for (const auto& [who, local] : patterns) add(first, who, local);
  constexpr int32_t kFew = 64;
  for (int32_t size = first - 1; size > 1 && first <= kFew; --size)
    add(size, patterns[0].first, patterns[0].second);
}

void add_window(Builder& b, int32_t first) {
  const TransformerConfig& c = b.config();
  if (c.attention.window == 0) return add_missing_window(b, first);
  b.config("unexpected window", "no layer has a window",
           [](TransformerConfig& d) { d.attention.window = 0; });
  for (const int32_t size : {c.attention.window + 1, c.attention.window - 1, first,
                             c.attention.window / 2, c.attention.window * 2})
    if (size > 0 && size < c.context)
      b.config("wrong window size",
               fmt::format("the window is {}, not {}", size, c.attention.window),
               [size](TransformerConfig& d) { d.attention.window = size; });
  constexpr int32_t kMostShift = 7;
  const bool varies =
      !c.attention.local.empty() &&
      std::ranges::find(c.attention.local, !c.attention.local[0]) != c.attention.local.end();
  for (int32_t by = 1; varies && by < std::min(c.layers, kMostShift); ++by)
    b.config("wrong window pattern",
             fmt::format("the pattern of layers with a window begins {} layer{} later", by,
                         by == 1 ? "" : "s"),
             [by](TransformerConfig& d) {
               std::rotate(d.attention.local.rbegin(), d.attention.local.rbegin() + by,
                           d.attention.local.rend());
             });
  for (auto& [who, local] : window_patterns(c))
    b.config("wrong window pattern", who + " the window",
             [local = std::move(local)](TransformerConfig& d) { d.attention.local = local; });
}

void add_matrices(Builder& b) {
  for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
                           "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "output.weight"})
    if (is_square(b.file(), part))
      b.tensors("wrongly transposed matrix", fmt::format("{} is transposed", part), {part},
                turned());
  struct Pair {
    const char *one, *other;
  };
  for (const auto& [one, other] :
       {Pair{"ffn_gate.weight", "ffn_up.weight"}, Pair{"attn_q.weight", "attn_k.weight"},
        Pair{"attn_k.weight", "attn_v.weight"},
        Pair{"ffn_gate_exps.weight", "ffn_up_exps.weight"}}) {
    if (!can_swap(b.file(), one, other)) continue;
    b.file("swapped tensors", fmt::format("{} and {} are swapped", one, other),
           [one = one, other = other](ModelFile& file, TransformerConfig&) {
             swap_parts(file, one, other);
           });
  }
  for (const char* part : {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias",
                           "ffn_down.bias", "output.bias", "attn_sinks.weight"})
    if (has_part(b.file(), part) && may_lack(b.config(), part))
      b.file("unexpected tensor", fmt::format("there is no {}", part),
             [part](ModelFile& file, TransformerConfig&) { drop_parts(file, {part}); });
  if (!b.config().output.tied && has_part(b.file(), "output.weight"))
    b.config("wrong output head", "the output head is the embedding",
             [](TransformerConfig& d) { d.output.tied = true; });
  if (b.config().output.tied && has_part(b.file(), "output.weight"))
    b.config("wrong output head", "the output head is output.weight, not the embedding",
             [](TransformerConfig& d) { d.output.tied = false; });
}

// Adds defects of single layers, as after an interrupted and resumed conversion or a merge of two
// files.
void add_layers(Builder& b) {
  const TransformerConfig& c = b.config();
  struct Kind {
    const char* what;
    std::vector<const char*> parts;
  };
  const Kind kinds[] = {
      {"Q and K", {"attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias"}},
      {"Q", {"attn_q.weight", "attn_q.bias"}},
      {"K", {"attn_k.weight", "attn_k.bias"}}};
  for (int32_t layer = 0; layer < c.layers && c.positions.rope.dims > 0; ++layer)
    for (const bool to_neighbours : {c.positions.interleaved, !c.positions.interleaved})
      for (const auto& [what, parts] : kinds) {
        std::vector<std::string> names;
        for (const char* part : parts) names.push_back(fmt::format("blk.{}.{}", layer, part));
        b.tensors("wrong RoPE pairing in one layer",
                  fmt::format("the rows of {} of layer {} are permuted from {}", what, layer,
                              to_neighbours ? "split to interleaved" : "interleaved to split"),
                  std::move(names), pair_order(c, to_neighbours));
      }
  // Each pair costs one run of the model. Adjacent layers come first.
  constexpr int32_t kMostPairs = 400;
  int32_t pairs = 0;
  for (int32_t apart = 1; apart < c.layers; ++apart)
    for (int32_t one = 0; one + apart < c.layers && pairs < kMostPairs; ++one, ++pairs)
      b.file("swapped layers", fmt::format("layers {} and {} are swapped", one, one + apart),
             [one, other = one + apart](ModelFile& file, TransformerConfig&) {
               swap_layers(file, one, other);
             });
}

void add_experts(Builder& b) {
  const TransformerConfig& c = b.config();
  if (c.architecture == "gptneox")
    b.config("wrong residual structure",
             c.residual.parallel ? "attention and feed-forward part run in sequence"
                                 : "attention and feed-forward part read the same input",
             [](TransformerConfig& d) { d.residual.parallel = !d.residual.parallel; });
  const ExpertConfig& e = c.experts;
  if (e.count == 0) return;
  b.config("wrong expert weights",
           e.route.normalise ? "the weights of the selected experts are not normalised"
                             : "the weights of the selected experts are normalised",
           [](TransformerConfig& d) { d.experts.route.normalise = !d.experts.route.normalise; });
  b.config("wrong expert weights",
           e.route.sigmoid ? "expert scores use softmax" : "expert scores use sigmoid",
           [](TransformerConfig& d) { d.experts.route.sigmoid = !d.experts.route.sigmoid; });
  for (const int by : {1, -1})
    if (e.route.used + by >= 1 && e.route.used + by <= e.count)
      b.config("wrong number of experts", fmt::format("{} experts are used", e.route.used + by),
               [by](TransformerConfig& d) { d.experts.route.used += by; });
}

void add_ids(Builder& b, int32_t bos, std::span<const ReferenceSet> sets) {
  if (bos < 0) return;
  const bool written = std::ranges::all_of(sets, [&](const ReferenceSet& set) {
    return std::ranges::all_of(set.texts,
                               [&](const ReferenceText& text) { return text.ids.front() == bos; });
  });
  b.ids(written ? "double BOS" : "missing BOS",
        written ? "another BOS precedes the recorded ids" : "a BOS precedes the recorded ids",
        IdEdit::kBosAdded);
  if (written)
    b.ids("missing BOS", "the BOS of the recorded ids is dropped", IdEdit::kFirstDropped);
}

}  // namespace

std::vector<Hypothesis> hypotheses(const Model& model, std::span<const ReferenceSet> sets,
                                   const Difference& far) {
  Builder builder(model);
  add_pairing(builder);
  add_ids(builder, model.tokenizer().special().bos, sets);
  add_floats(builder);
  add_norms(builder);
  add_activation(builder);
  add_window(builder, far.first);
  add_matrices(builder);
  add_experts(builder);
  add_rope(builder);
  add_layers(builder);
  return builder.take();
}

std::vector<Knob> knobs(const Model& model) {
  const TransformerConfig& c = model.config();
  const double scale = 1 / std::sqrt(static_cast<double>(c.attention.head_dim));
  const auto cap = [](double now) { return now == 0 ? "missing soft cap" : "wrong soft cap"; };
  std::vector<Knob> all{
      {"wrong attention scale", "the attention scale", scale / 32, scale * 32, c.attention.scale,
       [](TransformerConfig& d, double v) { d.attention.scale = static_cast<float>(v); }},
      {cap(c.output.softcap), "the soft cap of logits", 1, 500, c.output.softcap,
       [](TransformerConfig& d, double v) { d.output.softcap = static_cast<float>(v); }},
      {cap(c.attention.softcap), "the soft cap of attention scores", 0.5, 500, c.attention.softcap,
       [](TransformerConfig& d, double v) { d.attention.softcap = static_cast<float>(v); }},
      {"wrong embedding scale", "the embedding scale", 0.05, 500, c.input.scale,
       [](TransformerConfig& d, double v) { d.input.scale = static_cast<float>(v); }},
      {"wrong logit scale", "the logit scale", 1e-3, 100, c.output.scale,
       [](TransformerConfig& d, double v) { d.output.scale = static_cast<float>(v); }},
      {"wrong residual scale", "the residual scale", 0.05, 20, c.residual.scale,
       [](TransformerConfig& d, double v) { d.residual.scale = static_cast<float>(v); }}};
  if (c.positions.rope.dims == 0) return all;
  all.push_back({"wrong RoPE base", "the RoPE base", 1e2, 1e9, c.positions.rope.theta,
                 [](TransformerConfig& d, double v) {
                   if (d.positions.local_rope.theta == d.positions.rope.theta)
                     d.positions.local_rope.theta = v;
                   d.positions.rope.theta = v;
                 }});
  all.push_back({"wrong RoPE scaling", "the RoPE factor", 1, 256, c.positions.rope.factor,
                 [](TransformerConfig& d, double v) {
                   if (d.positions.rope.scaling == RopeScaling::kNone)
                     d.positions.rope.scaling = RopeScaling::kLinear;
                   d.positions.rope.factor = v;
                 }});
  return all;
}

std::string number_text(double value) {
  const std::string text = fmt::format("{:.4g}", value);
  if (value <= 0 || value >= 1) return text;
  const double inverse = 1 / (value * value);
  const double whole = std::round(inverse);
  const double root = std::round(std::sqrt(whole));
  if (std::abs(inverse - whole) > 2e-3 * whole || whole < 2 || whole > 1e5) return text;
  return root * root == whole ? fmt::format("{} (1/{})", text, root)
                              : fmt::format("{} (1/sqrt({}))", text, whole);
}

}  // namespace veery
