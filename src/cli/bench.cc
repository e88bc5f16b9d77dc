// bench.cc: `veery bench`: tokens per second of prompts and of answers, as llama-bench names them.
#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/random.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/session.h"

namespace veery::cli {
namespace {

struct Settings {
  int32_t prompt = 512, tokens = 128, repetitions = 5, depth = 0;
};

struct Row {
  std::string test;
  std::vector<double> speeds;  ///< tokens per second, ascending

  double median() const {
    const size_t middle = speeds.size() / 2;
    return speeds.size() % 2 == 1 ? speeds[middle] : (speeds[middle - 1] + speeds[middle]) / 2;
  }
};

class Bench {
 public:
  Bench(Model& model, const Settings& settings)
      : model_(model), settings_(settings), session_(model) {
    // Any tokens do, but always the same ones.
    Random random(1);
    const auto count = static_cast<size_t>(std::max(settings.prompt, settings.depth));
    while (tokens_.size() < count + 1)
      tokens_.push_back(
          static_cast<int32_t>(random.next() % static_cast<uint32_t>(model.config().vocab)));
  }

  Row prompt() {
    return measure("pp", settings_.prompt, [this] {
      session_.feed(std::span(tokens_).first(static_cast<size_t>(settings_.prompt)));
    });
  }

  Row answer() {
    std::vector<int32_t> out(static_cast<size_t>(settings_.tokens));
    return measure("tg", settings_.tokens,
                   [this, &out] { session_.decode_greedy(tokens_[0], out); });
  }

 private:
  template <typename Run>
  Row measure(const char* kind, int32_t count, const Run& run) {
    Row row{fmt::format("{}{}", kind, count), {}};
    if (settings_.depth > 0) row.test += fmt::format(" @ d{}", settings_.depth);
    Progress bar(row.test);
    for (int32_t r = -1; r < settings_.repetitions; ++r) {  // the first warms up
      go_to_depth();
      const double start = seconds_now();
      run();
      if (r >= 0) row.speeds.push_back(count / (seconds_now() - start));
      bar.show(r + 2, settings_.repetitions + 1);
    }
    std::sort(row.speeds.begin(), row.speeds.end());
    return row;
  }

  void go_to_depth() {
    if (session_.position() >= settings_.depth) {
      try {
        session_.rewind(settings_.depth);
        return;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kInput) throw;  // a sliding window has moved on
      }
    }
    session_.rewind(0);
    session_.feed(std::span(tokens_).first(static_cast<size_t>(settings_.depth)));
  }

  Model& model_;
  Settings settings_;
  Session session_;
  std::vector<int32_t> tokens_;
};

void print(const std::vector<Row>& rows, const ModelArguments& flags, Model& model) {
  Output& out = standard_output();
  if (flags.json) {
    Json list = Json::array();
    for (const Row& row : rows)
      list.push_back({{"test", row.test},
                      {"tokens_per_second", row.median()},
                      {"min", row.speeds.front()},
                      {"max", row.speeds.back()},
                      {"threads", model.threads()}});
    out.json(list);
    return;
  }
  const auto summary = summarize(model.file());
  out.line(fmt::format("{}: {}, {} of weights, {} threads, {}, loaded in {:.2f} s", model.path(),
                       model.config().architecture,
                       human_bytes(static_cast<double>(summary.weight_bytes)), model.threads(),
                       name(model.target()), model.load_seconds()));
  out.line(fmt::format("{:<18}{:>12}{:>12}{:>12}", "test", "tok/s", "min", "max"));
  for (const Row& row : rows)
    out.line(fmt::format("{:<18}{:>12.2f}{:>12.2f}{:>12.2f}", row.test, row.median(),
                         row.speeds.front(), row.speeds.back()));
}

}  // namespace

void bench_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  Settings settings;
  Arguments app(
      "bench",
      "Measures tokens per second (the median run): pp, a prompt in one go; tg, one token "
      "after the other.\nEach test warms up once before it is measured.",
      "  veery bench model.gguf -p 512 -n 128 -r 5");
  const auto add = [&](const std::string& option, int32_t& value, const std::string& what,
                       int least) {
    app.add_option(option, value, what)
        ->type_name("N")
        ->check(in_range(least, 1 << 24))
        ->capture_default_str();
  };
  flags.add_path(app);
  add("-p,--n-prompt", settings.prompt, "Tokens of the prompt; 0: no such test", 0);
  add("-n,--n-gen", settings.tokens, "Tokens of the answer; 0: no such test", 0);
  add("-r,--repetitions", settings.repetitions, "Measured runs of each test", 1);
  add("-d,--depth", settings.depth, "Tokens that the cache holds before each run", 0);
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print a JSON array: test, tokens_per_second, min, max, threads");
  app.read(std::move(arguments));
  if (settings.prompt == 0 && settings.tokens == 0)
    throw CLI::ValidationError("-p", "and -n are both 0: there is nothing to measure");

  LoadOptions options;
  options.context = settings.depth + std::max(settings.prompt, settings.tokens);
  Model model = flags.load(options);
  Bench bench(model, settings);
  std::vector<Row> rows;
  if (settings.prompt > 0) rows.push_back(bench.prompt());
  if (settings.tokens > 0) rows.push_back(bench.answer());
  print(rows, flags, model);
}

}  // namespace veery::cli
