// perplexity.cc: `veery perplexity`.
#include "tasks/perplexity.h"

#include "base/json.h"
#include "chat/chat.h"
#include "cli/args/arguments.h"
#include "cli/args/input.h"
#include "cli/args/model_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "file/folder/find_model.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments common;
  std::string file, reference;
};

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  flags.common.context = 512;
  Arguments app("perplexity",
                "Measures how well a model predicts a text. The text is cut into windows; the "
                "second half of each is scored, as in llama.cpp.",
                "  veery perplexity model.gguf -f text.txt -c 512\n"
                "  veery perplexity model-q4.gguf -f text.txt --reference model-f16.gguf");
  flags.common.add_path(app);
  app.option("-f,--file", flags.file, "Text; -: standard input").type_name("FILE").required();
  app.option("--reference", flags.reference, "Compare with the predictions of this model")
      .type_name("MODEL")
      .models();
  app.option("-c,--ctx-size", flags.common.context, "Tokens of a window")
      .type_name("N")
      .whole_number(4, 1 << 30)
      .show_default();
  flags.common.add_threads(app);
  flags.common.add_exact(app);
  flags.common.add_cache_types(app);
  flags.common.add_device(app);
  flags.common.add_gpu_layers(app);
  flags.common.add_json(
      app,
      "Print a JSON object: perplexity, stderr, tokens, windows and, with\n--reference, reference");
  app.read(std::move(arguments));
}

std::string line(std::string_view what, const Perplexity& result, int32_t window) {
  return fmt::format("{} {:.4f} +/- {:.5f} ({} tokens scored in {} windows of {})", what,
                     result.perplexity, result.standard_error, result.tokens,
                     result.window_means.size(), window);
}

Json json(const Perplexity& result) {
  return {{"perplexity", result.perplexity},
          {"stderr", result.standard_error},
          {"tokens", result.tokens},
          {"windows", result.window_means.size()}};
}

void measure(const Flags& flags, const std::string& text) {
  Model model = flags.common.load();
  SequenceReader reader(model);
  LostBytes lost;
  const auto ids = encode_prompt(model.tokenizer(), text, &lost);
  warn_lost(lost, "the text");
  Progress bar("scoring");
  const int32_t window = flags.common.context;
  const Perplexity result =
      perplexity(model, reader, ids, window, [&](const Perplexity& so_far, size_t windows) {
        bar.show(static_cast<double>(so_far.window_means.size()), static_cast<double>(windows),
                 fmt::format("perplexity {:.4f}", so_far.perplexity));
      });
  bar.clear();
  if (flags.common.json)
    standard_output().json(json(result));
  else
    standard_output().line(line("perplexity", result, window));
}

void print(const Comparison& result, int32_t window) {
  Output& out = standard_output();
  out.line(line("perplexity", result.model, window));
  out.line(fmt::format("reference  {:.4f} +/- {:.5f}", result.reference.perplexity,
                       result.reference.standard_error));
  out.line(fmt::format("ratio      {:.5f} +/- {:.5f}", result.ratio.value, result.ratio.error));
  out.line(fmt::format("divergence {:.6f} +/- {:.6f}", result.divergence.value,
                       result.divergence.error));
  out.line(fmt::format("same best  {:.3f} +/- {:.3f} %", 100 * result.same_best.value,
                       100 * result.same_best.error));
}

Json json(const Comparison& result) {
  Json all = json(result.model);
  all["reference"] = {{"perplexity", result.reference.perplexity},
                      {"stderr", result.reference.standard_error},
                      {"ratio", result.ratio.value},
                      {"ratio_stderr", result.ratio.error},
                      {"divergence", result.divergence.value},
                      {"divergence_stderr", result.divergence.error},
                      {"same_best", result.same_best.value},
                      {"same_best_stderr", result.same_best.error}};
  return all;
}

void measure_beside(const Flags& flags, const std::string& text) {
  Model model = flags.common.load();
  ModelArguments other = flags.common;  // with the executor of the model
  other.path = flags.reference;
  Model reference = other.load();
  LostBytes lost;
  encode_prompt(model.tokenizer(), text, &lost);
  warn_lost(lost, "the text");
  Progress bar("comparing");
  const int32_t window = flags.common.context;
  const Comparison result =
      compare(model, reference, text, window, [&](const Comparison& so_far, size_t windows) {
        bar.show(static_cast<double>(so_far.model.window_means.size()),
                 static_cast<double>(windows),
                 fmt::format("divergence {:.5f}", so_far.divergence.value));
      });
  bar.clear();
  if (flags.common.json)
    standard_output().json(json(result));
  else
    print(result, window);
}

}  // namespace

void perplexity_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  const std::string text = read_file(flags.file);
  if (!flags.reference.empty()) find_model(flags.reference);  // fails before the first is loaded
  if (flags.reference.empty())
    measure(flags, text);
  else
    measure_beside(flags, text);
}

}  // namespace veery::cli
