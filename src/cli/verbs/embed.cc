// embed.cc: `veery embed`.
#include "tasks/embed.h"

#include "base/clock.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/choice.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/args/text_arguments.h"
#include "cli/args/text_lines.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "file/output/pending_file.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments common;
  TextArguments text;
  OutputFlags output;
  EmbedOptions options;
  std::string jsonl, npy;
  bool raw = false;
};

std::vector<std::pair<std::string, PoolingKind>> pooling_choices() {
  std::vector<std::pair<std::string, PoolingKind>> choices;
  for (const char* name : {"none", "cls", "mean", "last", "max", "mean-sqrt-len", "weighted-mean"})
    choices.emplace_back(name, pooling_from_name(name));
  return choices;
}

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  Arguments app("embed",
                "Computes embeddings: vectors whose dot products measure how similar texts are.",
                "  veery embed model -p \"Rain is expected by noon.\"\n"
                "  veery embed model --jsonl texts.jsonl > embeddings.jsonl\n"
                "  veery embed model --jsonl texts.jsonl --npy embeddings.npy --dimensions 256\n"
                "  veery embed model -p \"what is a thrush\" --prompt-name query");
  flags.common.add_path(app);
  const auto text = flags.text.add(app, "TEXT", "Text to embed");
  app.option("--jsonl", flags.jsonl,
             "Read the texts from FILE, one JSON string per line; -: standard input")
      .type_name("FILE")
      .files({"jsonl"})
      .excludes(text.prompt)
      .excludes(text.file);
  add_choice<PoolingKind>(app, "--pooling", flags.options.pooling,
                          "Pooling of token rows: none, cls, mean, last, max, mean-sqrt-len, "
                          "weighted-mean\n[the model's]",
                          pooling_choices())
      .type_name("KIND");
  app.option("--dimensions", flags.options.dimensions,
             "Keep only the first N numbers (Matryoshka embeddings) [all]")
      .type_name("N")
      .whole_number(1, 1 << 24);
  app.option("--prompt-name", flags.options.prompt_name,
             "Prefix each text with the prompt of this name in the model's configuration\n"
             "[the model's default]")
      .type_name("NAME");
  app.option("--max-tokens", flags.options.max_tokens,
             "Truncate texts to N tokens, including special tokens [the model's limit]")
      .type_name("N")
      .whole_number(1, 1 << 24);
  app.flag("--no-normalize", flags.raw,
           "Do not scale embeddings to length 1 [as the model's files say]");
  flags.common.add_threads(app);
  flags.common.add_device(app);
  flags.common.add_gpu_layers(app);
  flags.common.add_exact(app);
  app.option("--npy", flags.npy, "Write the embeddings to FILE as a NumPy array [texts, numbers]")
      .type_name("FILE")
      .files({"npy"});
  flags.output.add(app, "Replace FILE of --npy if it exists");
  flags.common.add_json(app,
                        "Print a JSON object: embeddings, dimensions, tokens, truncated, seconds");
  app.read(std::move(arguments));
  flags.text.join_words(app, {"--jsonl"});
  if (flags.raw) flags.options.normalize = false;
}

// Header of NumPy's format 1.0: a dict in Python's syntax, padded to a multiple of 64 bytes.
std::string npy_header(size_t rows, int64_t columns) {
  std::string shape =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr size_t kBefore = 10;
  shape.resize((kBefore + shape.size() + 1 + 63) / 64 * 64 - kBefore - 1, ' ');
  shape += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(shape.size() & 0xff);
  header += static_cast<char>(shape.size() >> 8);
  return header + shape;
}

void write_npy(const Flags& flags, const std::vector<TextEmbedding>& all, int64_t columns) {
  size_t rows = 0;
  for (const TextEmbedding& one : all) rows += static_cast<size_t>(one.rows);
  OutputRules rules{flags.output.existing(), {flags.common.path, flags.jsonl}, nullptr};
  PendingFile file(flags.npy, rules);
  const std::string header = npy_header(rows, columns);
  file.write(header.data(), header.size());
  for (const TextEmbedding& one : all)
    file.write(one.values.data(), one.values.size() * sizeof(float));
  file.commit();
}

std::string numbers(std::span<const float> values) {
  std::string text = "[";
  for (const float value : values) text += fmt::format("{}{}", text.size() == 1 ? "" : ",", value);
  return text + "]";
}

// Returns a JSON array of numbers or, without pooling, an array of such arrays.
std::string numbers(const TextEmbedding& one, int64_t columns) {
  const std::span<const float> all = one.values;
  if (one.rows == 1 && std::ssize(all) == columns) return numbers(all);
  std::string text = "[";
  for (int64_t r = 0; r < one.rows; ++r)
    text += (r == 0 ? "" : ",") +
            numbers(all.subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns)));
  return text + "]";
}

void warn_cut(const std::vector<TextEmbedding>& all) {
  size_t texts = 0;
  int64_t tokens = 0;
  for (const TextEmbedding& one : all) texts += one.cut > 0, tokens += one.cut;
  if (texts > 0)
    write_error(fmt::format("veery: {} of {} texts {} longer than the limit: {} token{} cut off\n",
                            texts, all.size(), texts == 1 ? "is" : "are", tokens,
                            tokens == 1 ? "" : "s"));
}

std::string json_line(const std::vector<TextEmbedding>& all, int64_t columns, double seconds) {
  int64_t tokens = 0, cut = 0;
  std::string lists;
  for (const TextEmbedding& one : all) {
    tokens += one.tokens, cut += one.cut;
    lists += (lists.empty() ? "" : ",") + numbers(one, columns);
  }
  return fmt::format(
      R"({{"embeddings":[{}],"dimensions":{},"tokens":{},"truncated":{},"seconds":{:.6f}}})", lists,
      columns, tokens, cut, seconds);
}

}  // namespace

void embed_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  if (!flags.npy.empty()) flags.output.check(flags.npy, {flags.common.path, flags.jsonl});
  const std::vector<std::string> texts = flags.jsonl.empty()
                                             ? std::vector<std::string>{flags.text.read()}
                                             : read_text_lines(flags.jsonl);
  Progress loading("loading");
  Embedder embedder(flags.common.path, flags.common.load_options(loading, {}), flags.options);
  loading.clear();
  Progress bar("embedding");
  const double start = seconds_now();
  const std::vector<TextEmbedding> all = embedder.embed(texts, [&](size_t done, size_t count) {
    bar.show(static_cast<double>(done), static_cast<double>(count));
  });
  bar.clear();
  const double seconds = seconds_now() - start;
  warn_cut(all);
  Output& out = standard_output();
  if (!flags.npy.empty()) write_npy(flags, all, embedder.columns());
  if (flags.common.json)
    out.write(json_line(all, embedder.columns(), seconds) + "\n");
  else if (flags.npy.empty())
    for (const TextEmbedding& one : all) out.write(numbers(one, embedder.columns()) + "\n");
}

}  // namespace veery::cli
