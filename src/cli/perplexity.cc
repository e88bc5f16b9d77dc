// perplexity.cc: `veery perplexity`.
#include "engine/perplexity.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/chat.h"

namespace veery::cli {

void perplexity_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  flags.context = 512;
  std::string file;
  Arguments app("perplexity",
                "Measures how well a model predicts a text: windows side by side, the second half "
                "of each scored,\nas llama.cpp does it.",
                "  veery perplexity model.gguf -f text.txt -c 512");
  flags.add_path(app);
  app.add_option("-f,--file", file, "The text; -: standard input")->type_name("FILE")->required();
  app.add_option("-c,--ctx-size", flags.context, "Tokens of a window")
      ->type_name("N")
      ->check(in_range(4, 1 << 30))
      ->capture_default_str();
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print one JSON object: perplexity, stderr, tokens, windows");
  app.read(std::move(arguments));

  const std::string text = read_file(file);
  Model model = flags.load();
  Session session(model);
  const auto ids = encode_prompt(model.tokenizer(), text);
  Progress bar("scoring");
  const Perplexity result =
      perplexity(model, session, ids, flags.context, [&](const Perplexity& so_far, size_t windows) {
        bar.show(static_cast<double>(so_far.window_means.size()), static_cast<double>(windows),
                 fmt::format("perplexity {:.4f}", so_far.perplexity));
      });
  bar.clear();
  if (flags.json) {
    standard_output().json({{"perplexity", result.perplexity},
                            {"stderr", result.standard_error},
                            {"tokens", result.tokens},
                            {"windows", result.window_means.size()}});
  } else {
    standard_output().line(fmt::format(
        "perplexity {:.4f} +/- {:.5f} ({} tokens scored in {} windows of {})", result.perplexity,
        result.standard_error, result.tokens, result.window_means.size(), flags.context));
  }
}

}  // namespace veery::cli
