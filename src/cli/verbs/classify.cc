// classify.cc: `veery classify`.
#include "tasks/classify.h"

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "cli/args/arguments.h"
#include "cli/args/input.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_arguments.h"
#include "cli/args/text_lines.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "schedule/scheduler.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments common;
  SchedulerFlags scheduler;
  TextArguments text;
  LabelPromptOptions prompt;
  std::string labels, label_file, jsonl;
  bool mean = false;
};

Flags read_flags(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app("classify",
                "Prints the label that a model finds most probable as the answer for a text, and "
                "its probability among the labels.",
                "  veery classify model -p \"It broke after a day.\" --labels good,bad\n"
                "  veery classify model --jsonl reviews.jsonl --labels good,bad,mixed --json\n"
                "  veery classify model --jsonl mails.jsonl --label-file topics.txt \\\n"
                "    --form \"What is this mail about? {labels}\\n\\n{text}\"");
  flags.common.add_path(app);
  const auto text = flags.text.add(app, "TEXT", "Text to classify");
  app.option("--jsonl", flags.jsonl,
             "Read the texts from FILE, one JSON string per line; -: standard input")
      .type_name("FILE")
      .files({"jsonl"})
      .excludes(text.prompt)
      .excludes(text.file);
  const Option labels =
      app.option("--labels", flags.labels, "Labels, separated by commas").type_name("LIST");
  app.option("--label-file", flags.label_file, "Read the labels from FILE, one per line")
      .type_name("FILE")
      .files({"txt"})
      .excludes(labels);
  app.option("--form", flags.prompt.form,
             "Question; {text} and {labels} are replaced\n[Classify the text. Answer with one of "
             "these labels alone: ...]")
      .type_name("TEXT");
  app.flag("--raw", flags.prompt.raw, "Use the question as it is, without the chat template");
  app.flag("--mean", flags.mean,
           "Score a label by the mean of its tokens' log probabilities, not by the sum");
  flags.scheduler.add(app);
  flags.common.add_context(app);
  flags.common.add_threads(app);
  flags.common.add_exact(app);
  flags.common.add_cache_types(app);
  flags.common.add_device(app);
  flags.common.add_gpu_layers(app);
  flags.common.add_json(app, "Print a JSON object: labels, results, seconds");
  app.read(std::move(arguments));
  flags.scheduler.note_given(app);
  flags.text.join_words(app, {"--jsonl"});
  if (flags.labels.empty() && flags.label_file.empty())
    throw Misuse("--labels", "is missing, and so is --label-file");
  return flags;
}

std::vector<std::string> split(std::string_view text, char border) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(border, begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    part.remove_prefix(std::min(part.find_first_not_of(" \t\r"), part.size()));
    part = part.substr(0, part.find_last_not_of(" \t\r") + 1);
    if (!part.empty()) parts.emplace_back(part);
    begin = end + 1;
  }
  return parts;
}

size_t best_of(const std::vector<double>& shares) {
  return static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
}

Json json_of(const LabelPrompt& prompt, const std::vector<LabelScores>& all, bool mean,
             double seconds) {
  Json results = Json::array();
  for (const LabelScores& scores : all) {
    const std::vector<double> shares = scores.probabilities(mean);
    results.push_back({{"label", prompt.labels()[best_of(shares)]},
                       {"probabilities", shares},
                       {"logprobs", scores.logprobs},
                       {"prompt_tokens", scores.prompt_tokens},
                       {"reused_tokens", scores.reused_tokens}});
  }
  return {{"labels", prompt.labels()}, {"results", std::move(results)}, {"seconds", seconds}};
}

}  // namespace

void classify_verb(std::vector<std::string> arguments) {
  const Flags flags = read_flags(std::move(arguments));
  const std::vector<std::string> texts = flags.jsonl.empty()
                                             ? std::vector<std::string>{flags.text.read()}
                                             : read_text_lines(flags.jsonl);
  const std::vector<std::string> labels = flags.label_file.empty()
                                              ? split(flags.labels, ',')
                                              : split(read_file(flags.label_file), '\n');
  if (labels.size() < 2)
    throw Misuse(flags.label_file.empty() ? "--labels" : "--label-file",
                 fmt::format("found {} labels, expected two or more", labels.size()));
  Model model = flags.common.load();
  const LabelPrompt prompt(model, labels, flags.prompt);
  std::vector<LabelTokens> encoded;
  for (const std::string& text : texts) encoded.push_back(prompt.encode(text));
  Scheduler scheduler(model, flags.scheduler.options(flags.common));
  Progress bar("classifying");
  const double start = seconds_now();
  const std::vector<LabelScores> all =
      score_labels([&](GenerateRequest request) { return scheduler.submit(std::move(request)); },
                   scheduler.slots(), encoded,
                   [&](size_t done, size_t count) {
                     bar.show(static_cast<double>(done), static_cast<double>(count));
                   });
  bar.clear();
  Output& out = standard_output();
  if (flags.common.json) return out.json(json_of(prompt, all, flags.mean, seconds_now() - start));
  for (const LabelScores& scores : all) {
    const std::vector<double> shares = scores.probabilities(flags.mean);
    const size_t best = best_of(shares);
    out.line(fmt::format("{}\t{:.4f}", prompt.labels()[best], shares[best]));
  }
}

}  // namespace veery::cli
