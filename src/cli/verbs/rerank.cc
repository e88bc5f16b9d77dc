// rerank.cc: `veery rerank`.
#include "base/clock.h"
#include "base/json.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_lines.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "tasks/embed.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments common;
  RerankOptions options;
  std::string query, jsonl;
};

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  Arguments app(
      "rerank",
      "Scores how well documents answer a query. Needs a cross-encoder or Qwen3-Reranker.",
      "  veery rerank model -q \"what is a thrush\" --jsonl documents.jsonl");
  flags.common.add_path(app);
  app.option("-q,--query", flags.query, "Query").type_name("TEXT").required();
  app.option("--jsonl", flags.jsonl, "Documents, one JSON string per line; -: standard input")
      .type_name("FILE")
      .files({"jsonl"})
      .required();
  app.option("--max-tokens", flags.options.max_tokens,
             "Truncate query and document together to N tokens [the model's limit]")
      .type_name("N")
      .whole_number(1, 1 << 24);
  app.option("--instruction", flags.options.instruction,
             "Instruction for a decoder (Qwen3-Reranker)\n[Given a web search query, retrieve "
             "relevant passages that answer the query]")
      .type_name("TEXT");
  app.flag("--raw", flags.options.raw,
           "Print scores before the sigmoid (of a decoder: logit(yes) - logit(no))");
  flags.common.add_threads(app);
  flags.common.add_device(app);
  flags.common.add_gpu_layers(app);
  flags.common.add_exact(app);
  flags.common.add_json(
      app, "Print a JSON object: scores, ranking (best first), tokens, truncated, seconds");
  app.read(std::move(arguments));
}

std::vector<size_t> ranking(const std::vector<PairScore>& scores) {
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return scores[a].score > scores[b].score; });
  return order;
}

Json json(const std::vector<PairScore>& scores, double seconds) {
  Json values = Json::array();
  int64_t tokens = 0, cut = 0;
  for (const PairScore& one : scores) {
    values.push_back(one.score);
    tokens += one.tokens, cut += one.cut;
  }
  return {{"scores", std::move(values)},
          {"ranking", ranking(scores)},
          {"tokens", tokens},
          {"truncated", cut},
          {"seconds", seconds}};
}

}  // namespace

void rerank_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  const std::vector<std::string> documents = read_text_lines(flags.jsonl);
  Progress loading("loading");
  Reranker reranker(flags.common.path, flags.common.load_options(loading, {}), flags.options);
  loading.clear();
  Progress bar("scoring");
  const double start = seconds_now();
  const std::vector<PairScore> scores =
      reranker.score(flags.query, documents, [&](size_t done, size_t count) {
        bar.show(static_cast<double>(done), static_cast<double>(count));
      });
  bar.clear();
  size_t cut = 0;
  for (const PairScore& one : scores) cut += one.cut > 0;
  if (cut > 0)
    write_error(fmt::format("veery: {} of {} documents {} longer than the limit: cut off\n", cut,
                            scores.size(), cut == 1 ? "is" : "are"));
  Output& out = standard_output();
  if (flags.common.json) return out.json(json(scores, seconds_now() - start));
  for (const PairScore& one : scores) out.line(fmt::format("{}", one.score));
}

}  // namespace veery::cli
