#include "tasks/inspect/inspect.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/printable.h"
#include "engine/session.h"
#include "tasks/inspect/attention_map.h"
#include "tasks/inspect/lens.h"

namespace veery {
namespace {

constexpr int32_t kMaxTop = 1000;

// Gathers the columns of the given parts of all rows to [parts][rows][size].
std::vector<float> gather(const Operand& value, int64_t rows, std::span<const int32_t> parts,
                          int64_t size) {
  std::vector<float> all;
  all.reserve(parts.size() * static_cast<size_t>(rows * size));
  for (const int32_t part : parts)
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = value.row<float>(r) + part * size;
      all.insert(all.end(), row, row + size);
    }
  return all;
}

std::vector<float> gather(const Operand& value, int64_t rows) {
  constexpr int32_t kWhole[] = {0};
  return gather(value, rows, kWhole, value.cols);
}

// Returns `given` after checking it, or 0 to count - 1 if it is empty.
std::vector<int32_t> chosen(const std::vector<int32_t>& given, int32_t count, const char* what) {
  std::vector<int32_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  if (given.empty()) return all;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0 || given[i] >= count)
      throw Error(ErrorKind::kInput, "{}: found {}, expected 0 to {}", what, given[i], count - 1);
    if (i > 0 && given[i] <= given[i - 1])
      throw Error(ErrorKind::kInput, "{}s: found {} after {}, expected strictly ascending numbers",
                  what, given[i], given[i - 1]);
  }
  return given;
}

bool any(const InspectWhat& what) {
  return std::ranges::any_of(kInspectParts, [&](const auto& part) { return what.*part.member; });
}

/// The roots of the plan of one text.
class Roots {
 public:
  int add(Value value) {
    if (!value) return -1;
    all_.push_back(value);
    return static_cast<int>(all_.size()) - 1;
  }
  const std::vector<Value>& all() const { return all_; }

 private:
  std::vector<Value> all_;
};

}  // namespace

InspectWhat parse_inspect_what(std::span<const std::string> names) {
  InspectWhat what;
  for (const std::string& name : names) {
    const auto part = std::ranges::find(kInspectParts, name, &InspectPart::name);
    if (part == std::end(kInspectParts))
      throw Error(ErrorKind::kInput, "'{}' is not one of attention, queries, keys, hidden, lens",
                  printable(name));
    what.*part->member = true;
  }
  return what;
}

/// The results of a run: the layers, and which roots hold their values.
struct Inspector::Wanted {
  struct Of {
    int32_t layer = 0;
    int query = -1, key = -1, sinks = -1, out = -1;
  };
  Roots roots;
  int embedding = -1, final = -1;
  std::vector<Of> layers;
};

Inspector::Inspector(Model& model) : model_(model) {
  if (!model.runs_on_host())
    throw Error(ErrorKind::kUnsupported, "{}: models are inspected on the CPU only", model.path());
  // A decoder for embeddings was loaded without its output head.
  const bool logits = model.entry().roots.count("logits") != 0;
  entry_ = inspect_entry(model.file(), model.config(), logits);
  find_layers();
}

void Inspector::find_layers() {
  const auto find = [&](const std::string& name) {
    const auto found = entry_.roots.find(name);
    return found == entry_.roots.end() ? kNoValue : found->second;
  };
  const Graph& graph = entry_.graph;
  for (int32_t i = 0; i < model_.config().layers; ++i) {
    const std::string scope = fmt::format("blk.{}.", i);
    LayerNodes layer{.query = find(scope + "attn.q"), .out = find(scope + "out")};
    // The keys may belong to another layer.
    for (const Node& node : graph.nodes()) {
      if (!layer.query || node.op != op::kAttend || node.in[AttendIn::kQ] != layer.query) continue;
      layer.attends = true;
      layer.key = node.in[AttendIn::kK];
      layer.sinks = node.in[AttendIn::kSinks];
      if (const Value chosen = node.in[AttendIn::kChosen])
        layer.most_seen = graph.shape(chosen).cols();
      layer.attend = node.as<AttendAttr>();
    }
    layers_.push_back(layer);
  }
}

std::string Inspector::mixer_of(int32_t layer) const {
  const TransformerConfig& c = model_.config();
  const char* attention = c.latent.rank > 0 ? "latent attention" : "attention";
  const bool attends = layers_[static_cast<size_t>(layer)].attends;
  if (!c.is_recurrent(layer)) return attends ? attention : "feed-forward";
  return attends ? fmt::format("{} and {}", attention, name(c.recurrent.mixer))
                 : name(c.recurrent.mixer);
}

LayerInspection Inspector::describe(int32_t layer, const InspectOptions& options) const {
  const LayerNodes& nodes = layers_[static_cast<size_t>(layer)];
  LayerInspection result{.layer = layer, .mixer = mixer_of(layer), .attends = nodes.attends};
  if (!nodes.attends) return result;
  const AttendAttr& attend = nodes.attend;
  result.window = attend.window;
  result.chunked = attend.chunked;
  result.sinks = static_cast<bool>(nodes.sinks);
  result.scale = attend.scale;
  result.heads = chosen(options.heads, attend.heads, "head");
  for (const int32_t head : result.heads) {
    const int32_t key_head = head / (attend.heads / attend.kv_heads);
    if (result.key_heads.empty() || result.key_heads.back() != key_head)
      result.key_heads.push_back(key_head);
  }
  result.head_size = entry_.graph.shape(nodes.query).cols() / attend.heads;
  return result;
}

double Inspector::layer_numbers(int32_t layer, double rows, const InspectOptions& options) const {
  const InspectWhat& what = options.what;
  const LayerInspection about = describe(layer, options);
  const auto heads = static_cast<double>(about.heads.size());
  const auto size = static_cast<double>(about.head_size);
  double a_row = 0;
  if (what.attention) a_row += heads * rows;
  if (what.queries) a_row += heads * size;
  if (what.keys) a_row += static_cast<double>(about.key_heads.size()) * size;
  if (what.hidden) a_row += static_cast<double>(model_.config().dim);
  if (what.lens) a_row += 2.0 * options.top;
  return a_row * rows;
}

double Inspector::numbers(size_t tokens, const InspectOptions& options) const {
  const auto rows = static_cast<double>(tokens);
  double all = options.what.hidden ? 2 * rows * static_cast<double>(model_.config().dim) : 0;
  for (const int32_t layer : chosen(options.layers, model_.config().layers, "layer"))
    all += layer_numbers(layer, rows, options);
  return all;
}

Inspector::Wanted Inspector::check(std::span<const int32_t> ids, const InspectOptions& options,
                                   bool keep) const {
  const TransformerConfig& c = model_.config();
  const InspectWhat& what = options.what;
  if (ids.empty())
    throw Error(ErrorKind::kInput, "found a text without tokens, expected one or more");
  check_ids(model_, ids);
  if (std::ssize(ids) > model_.options().context)
    throw Error(ErrorKind::kLimit, "found a text of {} tokens, expected at most {}", ids.size(),
                model_.options().context);
  if (!any(what))
    throw Error(ErrorKind::kInput,
                "found nothing to inspect, expected attention, queries, keys, hidden or lens");
  if (what.lens && !has_lens())
    throw Error(ErrorKind::kUnsupported,
                "{}: the lens needs an output head, but the model has none", model_.path());
  const auto most_top = static_cast<int32_t>(std::min<int64_t>(kMaxTop, c.vocab));
  if (what.lens && (options.top < 1 || options.top > most_top))
    throw Error(ErrorKind::kInput, "top is {}, expected 1 to {}", options.top, most_top);
  const auto rows = static_cast<double>(ids.size());
  double values = 0, results = 0, largest = 0;
  Wanted wanted;
  for (const int32_t layer : chosen(options.layers, c.layers, "layer")) {
    const LayerNodes& nodes = layers_[static_cast<size_t>(layer)];
    if (what.attention && std::ssize(ids) > nodes.most_seen)
      throw Error(ErrorKind::kUnsupported,
                  "{}: layer {} attends to {} selected positions: it has no attention maps of {} "
                  "tokens",
                  model_.path(), layer, nodes.most_seen, ids.size());
    Wanted::Of of{.layer = layer};
    if (nodes.attends && (what.attention || what.queries)) of.query = wanted.roots.add(nodes.query);
    if (nodes.attends && (what.attention || what.keys)) of.key = wanted.roots.add(nodes.key);
    if (what.attention) of.sinks = wanted.roots.add(nodes.sinks);
    if (what.hidden || what.lens) of.out = wanted.roots.add(nodes.out);
    const double result = layer_numbers(layer, rows, options);
    results += result;
    largest = std::max(largest, result);
    wanted.layers.push_back(of);
  }
  if (what.hidden) {
    wanted.embedding = wanted.roots.add(entry_.root("embedding"));
    wanted.final = wanted.roots.add(entry_.root("hidden"));
  }
  for (const Value value : wanted.roots.all())
    values += rows * static_cast<double>(entry_.graph.shape(value).cols());
  const double bytes = sizeof(float) * (values + (keep ? results : largest));
  if (bytes > options.most_bytes)
    throw Error(
        ErrorKind::kLimit,
        "the values of {} tokens need {:.0f} MB, expected at most {:.0f} MB: request fewer layers "
        "or heads",
        ids.size(), bytes / 1e6, options.most_bytes / 1e6);
  return wanted;
}

Inspection Inspector::run(std::span<const int32_t> ids, const InspectOptions& options,
                          const InspectSink& sink, const InspectProgress& progress) {
  const Wanted wanted = check(ids, options, false);
  const InspectWhat& what = options.what;
  const auto rows = static_cast<int32_t>(ids.size());
  const size_t steps = 1 + wanted.layers.size();
  if (progress) progress(0, steps);
  RunBlock block(entry_.graph, rows);
  std::ranges::copy(ids, block.input<int32_t>("tokens").begin());
  block.add_span(0, rows, 0);
  // Selects the RoPE divisors for a context of this length.
  std::ranges::fill(block.find<int32_t>("is_extended"),
                    rows > model_.config().positions.rope.original_context ? 1 : 0);
  block.shape.sequences = 1;
  Workspace workspace(model_.executor().own_arena(model_.backend().device()));
  Plan plan(entry_.graph, wanted.roots.all(), one_place(model_, workspace, block),
            {.rows = rows, .exact = model_.options().exact, .fuse = model_.options().fuse});
  plan.run();
  if (progress) progress(1, steps);
  const auto root = [&](int i) { return i < 0 ? Operand() : plan.root(static_cast<size_t>(i)); };
  std::unique_ptr<Lens> lens;
  if (what.lens) lens = std::make_unique<Lens>(model_, entry_, layers_.back().out);
  for (size_t i = 0; i < wanted.layers.size(); ++i) {
    const Wanted::Of& of = wanted.layers[i];
    const LayerNodes& nodes = layers_[static_cast<size_t>(of.layer)];
    LayerInspection result = describe(of.layer, options);
    const Operand query = root(of.query), key = root(of.key), sinks = root(of.sinks),
                  out = root(of.out);
    if (nodes.attends && what.attention) {
      result.attention.resize(result.heads.size() * ids.size() * ids.size());
      attention_maps({nodes.attend, query, key, sinks, block.shape, rows}, result.heads,
                     model_.pool(), result.attention.data());
    }
    if (nodes.attends && what.queries)
      result.queries = gather(query, rows, result.heads, result.head_size);
    if (nodes.attends && what.keys)
      result.keys = gather(key, rows, result.key_heads, result.head_size);
    if (what.hidden) result.hidden = gather(out, rows);
    if (what.lens) result.lens = lens->look(out, rows, options.top);
    sink(std::move(result));
    if (progress) progress(i + 2, steps);
  }
  Inspection rest;
  if (what.hidden) {
    rest.embedding = gather(root(wanted.embedding), rows);
    rest.final = gather(root(wanted.final), rows);
  }
  return rest;
}

Inspection Inspector::run(std::span<const int32_t> ids, const InspectOptions& options,
                          const InspectProgress& progress) {
  check(ids, options, true);
  std::vector<LayerInspection> layers;
  Inspection result = run(
      ids, options, [&](LayerInspection&& layer) { layers.push_back(std::move(layer)); }, progress);
  result.layers = std::move(layers);
  return result;
}

}  // namespace veery
