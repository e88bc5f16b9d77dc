// show.cc: `veery show`: describes a model file without reading its weights.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "dtype/dtype.h"
#include "engine/model.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "model/arch/entry.h"
#include "model/arch/registry.h"

namespace veery::cli {
namespace {

constexpr size_t kShownItems = 4;
constexpr size_t kShownText = 100;  // bytes
constexpr size_t kShownCell = 1000;

Json item_json(std::string_view text) { return std::string(text); }
Json item_json(int64_t value) { return value; }
Json item_json(double value) { return value; }

template <typename T>
Json array_json(const std::vector<T>& items, bool whole) {
  Json list = Json::array();
  const size_t count = whole ? items.size() : std::min(items.size(), kShownItems);
  for (size_t i = 0; i < count; ++i) list.push_back(item_json(items[i]));
  if (count == items.size()) return list;
  return {{"length", items.size()}, {"first", std::move(list)}};
}

Json to_json(const MetaValue& value, bool whole) {
  return std::visit(
      [&](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, bool> || std::is_arithmetic_v<T> ||
                      std::is_same_v<T, std::string>) {
          return held;
        } else {
          return array_json(held, whole);
        }
      },
      value);
}

std::string shorten(std::string_view text) {
  const std::string whole = escaped(text.substr(0, 2 * kShownText));
  if (whole.size() <= kShownText) return whole;
  return fmt::format("{} ({} bytes)", printable(whole, kShownText), text.size());
}

// Shortens JSON, which escapes control characters itself.
std::string shorten_json(const Json& json) {
  return printable(printable_json(dump_json(json)), kShownText);
}

std::string to_text(const MetaValue& value) {
  const Json json = to_json(value, false);
  if (json.is_string()) return shorten(json.string());
  if (!json.is_object()) return shorten_json(json);
  return fmt::format("{}... ({} items)", shorten_json(json["first"]), json["length"].get<size_t>());
}

Json tokenizer_json(const ModelFile& file) {
  try {
    const auto tokenizer = load_tokenizer(file.path);
    const Tokenizer::Special& special = tokenizer->special();
    const auto token = [&](int32_t id) -> Json {
      if (id < 0) return nullptr;
      return {{"id", id}, {"token", tokenizer->token(id)}};
    };
    Json ends = Json::array();
    for (int32_t id : special.ends) ends.push_back(token(id));
    return {{"model", file.metadata.text("tokenizer.ggml.model").value_or("")},
            {"pre", file.metadata.text("tokenizer.ggml.pre").value_or("")},
            {"tokens", tokenizer->size()},
            {"bos", token(special.bos)},
            {"eos", token(special.eos)},
            {"unknown", token(special.unknown)},
            {"pad", token(special.pad)},
            {"ends", ends},
            {"adds_bos", special.add_bos},
            {"adds_eos", special.add_eos}};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return {{"error", error.what()}};
  }
}

// Returns the layers with is(layer) as ranges, such as "0-2, 4".
template <typename Is>
std::string layer_ranges(int32_t layers, const Is& is) {
  std::string text;
  for (int32_t first = 0; first < layers; ++first) {
    if (!is(first)) continue;
    int32_t last = first;
    while (last + 1 < layers && is(last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

// Returns the ranges of sLSTM layers.
std::string cell_ranges(const RecurrentConfig& r) {
  const auto is_cell = [&](int32_t i) { return r.blocks.cells[static_cast<size_t>(i)]; };
  return layer_ranges(static_cast<int32_t>(r.blocks.cells.size()), is_cell);
}

// Describes the recurrent layers; null if there are none.
Json recurrent_json(const TransformerConfig& config) {
  const RecurrentConfig& r = config.recurrent;
  if (r.mixer == Mixer::kNone) return nullptr;
  int32_t count = 0;
  for (int32_t layer = 0; layer < config.layers; ++layer) count += config.is_recurrent(layer);
  return {{"kind", name(r.mixer)},
          {"beside_attention", find_architecture(config.architecture).parallel_mixers},
          {"layers", count},
          {"which", layer_ranges(config.layers, [&](int32_t i) { return config.is_recurrent(i); })},
          {"heads", r.heads},
          {"key_heads", r.key_heads},
          {"key_size", r.key_size},
          {"value_size", r.value_size},
          {"convolution_width", r.conv_width},
          {"cells", cell_ranges(r)},
          {"cell_heads", r.blocks.cell_heads},
          {"state_bytes", state_bytes(config)}};
}

Json architecture_json(const ModelFile& file, const ModelArguments& flags) {
  try {
    const TransformerConfig config = read_config(file);
    const int32_t context = run_context(config, {.context = flags.context});
    const DType keys = flags.cache_keys.value_or(DType::kBF16);
    const DType values = flags.cache_values.value_or(DType::kBF16);
    return {{"layers", config.layers},
            {"dim", config.dim},
            {"hidden", config.feed_forward.hidden},
            {"heads", config.attention.heads},
            {"kv_heads", config.attention.kv_heads},
            {"head_dim", config.attention.head_dim},
            {"local_kv_heads", config.attention.local_kv_heads},
            {"local_head_dim", config.attention.local_head_dim},
            {"shared_kv_layers", config.attention.shared_kv_layers},
            {"shared_kv_hidden", config.feed_forward.shared_kv_hidden},
            {"encoder_layers", config.source.layers},
            {"encoder_heads", config.source.heads},
            {"encoder_hidden", config.source.hidden},
            {"encoder_positions", config.source.positions},
            {"encoder_bands", config.source.bands},
            {"vocabulary", config.vocab},
            {"sparse_from", config.index.used},
            {"further_layers", config.mtp_layers},
            {"draft_head", has_draft_head(file, config)},
            {"recurrent", recurrent_json(config)},
            {"trained_context", config.context},
            {"sliding_window", config.attention.window},
            {"context", context},
            {"cache_types", {info(keys).name, info(values).name}},
            {"cache_bytes", cache_bytes(config, context, keys, values)},
            {"cache_bytes_f16", cache_bytes(config, context, DType::kF16, DType::kF16)},
            {"cache_bytes_f32", cache_bytes(config, context, DType::kF32, DType::kF32)}};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kBug) throw;
    return {{"error", error.what()}};
  }
}

Json describe(const ModelFile& file, const ModelArguments& flags, bool whole) {
  const ModelSummary summary = summarize(file);
  Json types = Json::object();
  for (const auto& [type, count] : summary.types) types[type] = count;
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata.all()) metadata[key] = to_json(value, whole);
  const std::string chat = chat_template_source(file.path);
  return {{"path", file.path},
          {"architecture", file.metadata.text("general.architecture").value_or("")},
          {"name", file.metadata.text("general.name").value_or("")},
          {"parameters", summary.parameters},
          {"tensors", file.tensors.size()},
          {"weight_bytes", summary.weight_bytes},
          {"types", types},
          {"config", architecture_json(file, flags)},
          {"tokenizer", tokenizer_json(file)},
          {"chat_template", chat.empty() ? Json(nullptr) : Json(chat)},
          {"metadata", metadata}};
}

std::string token_text(const Json& token) {
  if (token.is_null()) return "none";
  return fmt::format("{} {}", token["id"].get<int>(), shorten(token["token"].string()));
}

void row(std::string_view key, const std::string& value) {
  standard_output().line(fmt::format("  {:<22}{}", key, printable(value, kShownCell)));
}

// Returns "f16", or "f16 keys, q8_0 values".
std::string type_text(const Json& types) {
  const auto keys = types[0].get<std::string>();
  const auto values = types[1].get<std::string>();
  return keys == values ? keys : fmt::format("{} keys, {} values", keys, values);
}

void print_recurrent(const Json& r) {
  const auto number = [&](const char* key) { return r[key].get<int64_t>(); };
  row("recurrent", fmt::format("{} layers of {}: {}", number("layers"), r["kind"].string(),
                               r["which"].string()));
  if (number("heads") > 0)
    row("", fmt::format("{} heads of {} x {}, {} for keys", number("heads"), number("key_size"),
                        number("value_size"), number("key_heads")));
  if (number("cell_heads") > 0)
    row("", fmt::format("sLSTM of {} heads: {}", number("cell_heads"), r["cells"].string()));
  if (number("convolution_width") > 0)
    row("", fmt::format("convolutions over {} positions", number("convolution_width")));
  row("", fmt::format("a state of {} per sequence, of any length",
                      human_bytes(r["state_bytes"].get<double>())));
}

void print_config(const Json& config) {
  if (config.contains("error")) return row("cannot run", config["error"].get<std::string>());
  const auto number = [&](const char* key) { return config[key].get<int64_t>(); };
  const Json& recurrent = config["recurrent"];
  const bool attends = recurrent.is_null() || recurrent["beside_attention"].get<bool>() ||
                       recurrent["layers"] != config["layers"];
  // Models without feed-forward parts or attention have a size of 1 in their place.
  row("layers",
      fmt::format("{} of width {}", number("layers"), number("dim")) +
          (number("hidden") > 1 ? fmt::format(", feed-forward {}", number("hidden")) : ""));
  if (attends)
    row("attention", fmt::format("{} heads of {}, {} for keys and values", number("heads"),
                                 number("head_dim"), number("kv_heads")));
  if (!recurrent.is_null()) print_recurrent(recurrent);
  if (number("sparse_from") > 0)
    row("sparse attention", fmt::format("to {} selected positions", number("sparse_from")));
  if (config["draft_head"].get<bool>())
    row("MTP head", "yes, used for speculative decoding");
  else if (number("further_layers") > 0)
    row("not used", fmt::format("{} MTP layers", number("further_layers")));
  const auto local = [&](const char* key, const char* usual) {
    return number(key) > 0 ? number(key) : number(usual);
  };
  if (number("local_head_dim") > 0 || number("local_kv_heads") > 0)
    row("", fmt::format("with a window: heads of {}, {} for keys and values",
                        local("local_head_dim", "head_dim"), local("local_kv_heads", "kv_heads")));
  if (number("shared_kv_layers") > 0)
    row("", fmt::format("the last {} layers share keys of others, feed-forward {}",
                        number("shared_kv_layers"), local("shared_kv_hidden", "hidden")));
  if (number("encoder_layers") > 0)
    row("encoder",
        fmt::format("of sound: {} layers, feed-forward {}, {} heads, {} positions of "
                    "two frames of {} bands",
                    number("encoder_layers"), number("encoder_hidden"), number("encoder_heads"),
                    number("encoder_positions"), number("encoder_bands")));
  row("trained context", fmt::format("{}", number("trained_context")));
  if (number("sliding_window") > 0)
    row("sliding window", fmt::format("{}", number("sliding_window")));
  row("KV cache", fmt::format("{} ({}) for a context of {}, {} with --exact",
                              human_bytes(static_cast<double>(number("cache_bytes"))),
                              type_text(config["cache_types"]), number("context"),
                              human_bytes(static_cast<double>(number("cache_bytes_f32")))));
}

void print_tokenizer(const Json& tokenizer) {
  standard_output().line("\ntokenizer");
  if (tokenizer.contains("error"))
    return row("cannot be used", tokenizer["error"].get<std::string>());
  row("kind", fmt::format("{} {}, {} tokens", shorten(tokenizer["model"].string()),
                          shorten(tokenizer["pre"].string()), tokenizer["tokens"].get<int>()));
  row("BOS", token_text(tokenizer["bos"]) + (tokenizer["adds_bos"].get<bool>() ? " (added)" : ""));
  row("EOS", token_text(tokenizer["eos"]) + (tokenizer["adds_eos"].get<bool>() ? " (added)" : ""));
  std::string ends;
  for (const Json& token : tokenizer["ends"])
    ends += (ends.empty() ? "" : ", ") + token_text(token);
  row("ends an answer", ends.empty() ? "none" : ends);
}

void print(const Json& all, const ModelFile& file) {
  Output& out = standard_output();
  out.line(printable(all["path"].string(), kShownCell));
  row("architecture", shorten(all["architecture"].string()));
  row("name", shorten(all["name"].string()));
  row("parameters", fmt::format("{:.1f} M in {} tensors", all["parameters"].get<double>() / 1e6,
                                all["tensors"].get<size_t>()));
  std::string types;
  for (const auto& [type, count] : all["types"].items())
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count.get<int>(), type);
  row("weights", fmt::format("{}: {}", human_bytes(all["weight_bytes"].get<double>()), types));
  print_config(all["config"]);
  print_tokenizer(all["tokenizer"]);
  out.line("\nchat template");
  const Json& chat = all["chat_template"];
  out.line("  " + (chat.is_null() ? std::string("none") : shorten(chat.string())));
  out.line("\nmetadata");
  for (const auto& [key, value] : file.metadata.all())
    out.line(fmt::format("  {:<44}{}", shorten(key), to_text(value)));
}

}  // namespace

void show_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  bool whole = false;
  Arguments app("show", "Describes a model file or folder without reading its weights.",
                "  veery show model.gguf -c 8192");
  flags.add_path(app);
  flags.add_context(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print a JSON object");
  app.flag("--all", whole, "With --json: print long arrays of the metadata in full");
  app.read(std::move(arguments));
  const ModelFile file = open_model(flags.path);
  const Json all = describe(file, flags, whole);
  if (flags.json) {
    standard_output().json(all);
  } else {
    print(all, file);
  }
}

}  // namespace veery::cli
