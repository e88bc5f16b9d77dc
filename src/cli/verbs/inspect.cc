// inspect.cc: `veery inspect`: shows activations of a model while it reads a text.
#include "tasks/inspect/inspect.h"

#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "chat/chat.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/inspect/inspect_files.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "text/tokenizer.h"

namespace veery::cli {
namespace {

constexpr int32_t kMaxNumber = 9999;  // bounds ranges before the model is known

struct Flags {
  ModelArguments common;
  TextArguments text;
  std::optional<std::string> ids, layers, heads, what, out;
  InspectOptions options;
  std::optional<int32_t> at;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "0,3-5"
std::vector<int32_t> parse_numbers(const std::string& list, const char* flag) {
  std::set<int32_t> found;
  for (const std::string& part : split(list)) {
    const char* const end = part.data() + part.size();
    int32_t first = -1, last = -1;
    auto read = std::from_chars(part.data(), end, first);
    last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || read.ptr != end || first < 0 || last < first || last > kMaxNumber)
      throw Misuse(flag, fmt::format("found '{}', expected numbers and ranges such as 0,3-5",
                                     printable(part)));
    for (int32_t i = first; i <= last; ++i) found.insert(i);
  }
  return {found.begin(), found.end()};
}

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  Arguments app(
      "inspect",
      "Shows what happens in a model while it reads a text: the next-token predictions of each "
      "layer (logit lens), attention weights, queries and keys after RoPE, hidden states. --out "
      "writes NumPy files, pictures of the attention maps and index.json.",
      "  veery inspect model.gguf -p \"The capital of France is\" --layers 0,3-5\n"
      "  veery inspect model.gguf -p \"The capital of France is\" --out maps");
  flags.common.add_path(app);
  const auto source = flags.text.add(app, "TEXT", "Text to read");
  app.option("--ids", flags.ids, "Token ids instead of a text, used unchanged: 1,2,3")
      .type_name("IDS")
      .excludes(source.prompt)
      .excludes(source.file);
  app.option("--layers", flags.layers, "Layers, from 0: 0,3-5 [all]").type_name("LIST");
  app.option("--heads", flags.heads, "Query heads, from 0: 0,3-5 [all]").type_name("LIST");
  app.option("--what", flags.what,
             "Values: attention, queries, keys, hidden, lens [lens; all with --out]")
      .type_name("LIST")
      .choices({"attention", "queries", "keys", "hidden", "lens"});
  app.option("--out", flags.out, "Write .npy files, pictures and index.json to this new folder")
      .type_name("DIR");
  app.option("--top", flags.options.top, "Predicted tokens per position in the lens")
      .type_name("K")
      .whole_number(1, 1000)
      .show_default();
  app.option("--at", flags.at, "Position to print the lens of, counted from 0 [the last]")
      .type_name("N")
      .whole_number(0, 1 << 30);
  flags.common.add_threads(app);
  flags.common.add_exact(app);
  flags.common.add_json(app,
                        "Print a JSON object: tokens, and layers with the lens at each position");
  app.read(std::move(arguments));
  flags.text.join_words(app, {"--ids"});
  if (!flags.text.given() && !flags.ids) throw Misuse("missing text, expected -p, -f or --ids");
  if (flags.layers) flags.options.layers = parse_numbers(*flags.layers, "--layers");
  if (flags.heads) flags.options.heads = parse_numbers(*flags.heads, "--heads");
  if (!flags.what) return;
  const std::vector<std::string> names = split(*flags.what);
  try {
    flags.options.what = parse_inspect_what(names);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    throw Misuse("--what", error.what());
  }
  for (const std::string& name : names)
    if (!flags.out && name != "lens")
      throw Misuse("--what", fmt::format("{} needs --out DIR: it is written to files", name));
}

void check_below(const std::vector<int32_t>& numbers, int32_t count, const char* flag) {
  for (const int32_t number : numbers)
    if (number >= count)
      throw Misuse(flag, fmt::format("found {}, expected 0 to {}", number, count - 1));
}

InspectedText read_text(const Flags& flags, const Model& model) {
  InspectedText text;
  if (flags.ids) {
    text.ids = parse_ids(*flags.ids, "--ids");
    check_ids(text.ids, model, "--ids");
  } else {
    std::string input = flags.text.read();
    if (flags.text.file && input.ends_with('\n')) input.pop_back();
    LostBytes lost;
    text.ids = model.config().attention.mask == Mask::kCausal
                   ? encode_prompt(model.tokenizer(), input, &lost)
                   : model.tokenizer().encode(input, {.lost = &lost});
    warn_lost(lost, "the text");
  }
  for (const int32_t id : text.ids) text.tokens.push_back(shown_token(model.tokenizer(), id));
  return text;
}

// Prints the most probable next tokens of each layer after position `at`.
void print_lens(const std::vector<LayerInspection>& layers, const InspectedText& text, size_t at,
                const Tokenizer& tokenizer) {
  Output& out = standard_output();
  out.line(fmt::format("next-token predictions of each layer after token {} ('{}'):", at,
                       text.tokens[at]));
  size_t widest = 0;
  for (const LayerInspection& layer : layers) widest = std::max(widest, layer.mixer.size());
  for (const LayerInspection& layer : layers) {
    std::string line = fmt::format("{:>5}  {:<{}}", layer.layer, layer.mixer, widest);
    const size_t top = layer.lens.size() / text.ids.size();
    for (size_t i = at * top; i < (at + 1) * top; ++i) {
      const LensToken& token = layer.lens[i];
      // A visible leading space distinguishes a word from the continuation of one.
      std::string shown;
      for (const char c : shown_token(tokenizer, token.id)) shown += c == ' ' ? '_' : c;
      line += fmt::format("  {:>5.1f} % {:<12}", 100 * token.probability,
                          shown.empty() ? fmt::format("#{}", token.id) : shown);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.line(line);
  }
}

void print_json(const std::vector<LayerInspection>& layers, const InspectedText& text,
                const Tokenizer& tokenizer) {
  Json tokens = Json::array(), list = Json::array();
  for (size_t i = 0; i < text.ids.size(); ++i)
    tokens.push_back({{"id", text.ids[i]}, {"text", text.tokens[i]}});
  for (const LayerInspection& layer : layers) {
    Json json = layer_json(layer);
    if (!layer.lens.empty()) json["lens"] = lens_json(layer, text, tokenizer);
    list.push_back(std::move(json));
  }
  standard_output().json({{"tokens", std::move(tokens)}, {"layers", std::move(list)}});
}

}  // namespace

void inspect_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  LoadOptions load;
  // This entry point has no KV cache, so no memory is reserved for the context.
  load.entry = [](ModelFile& file, const TransformerConfig& config) {
    return inspect_entry(file, config, true);
  };
  Model model = flags.common.load(std::move(load));
  check_below(flags.options.layers, model.config().layers, "--layers");
  check_below(flags.options.heads, model.config().attention.heads, "--heads");
  Inspector inspector(model);
  const InspectedText text = read_text(flags, model);
  InspectWhat& what = flags.options.what;
  if (!flags.what) {
    what.lens = inspector.has_lens();
    if (flags.out) what.attention = what.queries = what.keys = what.hidden = true;
    if (!flags.out && !what.lens)
      throw Misuse("missing --out: the model has no output head, which the lens needs");
  }
  const auto last = static_cast<int32_t>(text.ids.size()) - 1;
  if (flags.at.value_or(last) > last)
    throw Misuse("--at", fmt::format("found {}, expected 0 to {}", *flags.at, last));
  std::optional<InspectFolder> folder;
  if (flags.out) folder.emplace(*flags.out, text);
  std::vector<LayerInspection> shown;
  Progress bar("inspecting");
  const Inspection rest = inspector.run(
      text.ids, flags.options,
      [&](LayerInspection&& layer) {
        if (folder) folder->add(layer, flags.options.top);
        layer.attention = layer.queries = layer.keys = layer.hidden = {};
        shown.push_back(std::move(layer));
      },
      [&](size_t done, size_t all) {
        bar.show(static_cast<double>(done), static_cast<double>(all));
      });
  bar.clear();
  if (folder) folder->commit(rest, model.path());
  if (flags.common.json)
    print_json(shown, text, model.tokenizer());
  else if (what.lens)
    print_lens(shown, text, static_cast<size_t>(flags.at.value_or(last)), model.tokenizer());
}

}  // namespace veery::cli
