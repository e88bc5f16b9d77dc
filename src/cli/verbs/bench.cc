// bench.cc: `veery bench`: measures prefill (pp) and decoding (tg), with llama-bench's names.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/choice.h"
#include "cli/args/model_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/profile/peak_rates.h"
#include "cli/verbs/verbs.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "sample/sampler.h"
#include "tasks/embed.h"

namespace veery::cli {
namespace {

constexpr int32_t kMaxSequences = 512;

struct Settings {
  int32_t prompt = 512, tokens = 128, repetitions = 5, depth = 0, batch = 1, chain = 1;
  bool logits = false, sampled = false;
  bool prompt_given = false, batch_given = false;
};

/// The values that --sweep varies, in all combinations. Empty: the value of the flag.
struct Sweep {
  std::vector<int32_t> threads, depths, batches, lengths;
  bool wanted() const {
    return !threads.empty() || !depths.empty() || !batches.empty() || !lengths.empty();
  }
};

struct Row {
  std::string kind;  ///< "pp", "tg" or, of an encoder, "emb"
  int32_t count = 0, depth = 0, batch = 1, chain = 1;
  int threads = 0;
  std::vector<double> speeds;  ///< tokens per second
  std::vector<double> host;    ///< on a device: seconds per token that the host was busy
  double ratio = 1;            ///< of its median speed to that of the first row of its kind
  bool sampled = false;

  std::string test() const {
    return fmt::format("{}{}{}{}{}{}", kind, count, batch > 1 ? fmt::format(" x {}", batch) : "",
                       depth > 0 ? fmt::format(" @ d{}", depth) : "", sampled ? " sampled" : "",
                       chain > 1 ? fmt::format(" chained by {}", chain) : "");
  }
  bool is_like(const Row& other) const { return kind == other.kind && sampled == other.sampled; }
  double texts_per_second() const { return median(speeds) / count; }
  double least() const { return *std::min_element(speeds.begin(), speeds.end()); }
  double most() const { return *std::max_element(speeds.begin(), speeds.end()); }
};

/// Measures an encoder on `batch` texts of `length` tokens at once.
class EncoderBench {
 public:
  EncoderBench(Model& model, int32_t repetitions)
      : model_(model),
        repetitions_(repetitions),
        encoder_(model, model.entry().roots.begin()->first) {}

  Row measure(int32_t length, int32_t batch) {
    Row row{.kind = "emb", .count = length, .batch = batch, .threads = model_.threads()};
    const std::vector<int32_t> tokens = any_tokens(model_, static_cast<size_t>(length * batch));
    std::vector<TokenSequence> texts;
    for (int32_t i = 0; i < batch; ++i)
      texts.push_back(
          {std::span(tokens).subspan(static_cast<size_t>(i * length), static_cast<size_t>(length)),
           {}});
    Progress bar(fmt::format("{}, {} threads", row.test(), row.threads));
    for (int32_t r = -1; r < repetitions_; ++r) {  // run -1 warms up
      const double start = seconds_now();
      encoder_.run(texts);
      if (r >= 0) row.speeds.push_back(length * batch / (seconds_now() - start));
      bar.show(r + 2, repetitions_ + 1);
    }
    return row;
  }

 private:
  Model& model_;
  int32_t repetitions_;
  Encoder encoder_;
};

class Bench {
 public:
  Bench(Model& model, const Settings& settings, int32_t most_sequences)
      : model_(model),
        settings_(settings),
        session_(model, {.sequences = most_sequences}),
        tokens_(
            any_tokens(model, static_cast<size_t>(model.options().context) + most_sequences + 1)) {}

  /// Measures the prefill of `length` tokens after `depth` tokens of context.
  Row prompt(int32_t depth, int32_t length) {
    return measure({.kind = "pp", .count = length, .depth = depth},
                   [this, length] { feed(0, length); });
  }

  /// Measures decoding of `batch` sequences together.
  Row answer(int32_t depth, int32_t batch) {
    return measure({.kind = "tg",
                    .count = settings_.tokens,
                    .depth = depth,
                    .batch = batch,
                    .chain = settings_.chain},
                   [this, batch] {
                     if (settings_.chain > 1) return decode_chained(batch, {.temperature = 0});
                     decode(batch);
                   });
  }

  /// The same with tokens sampled with the settings that the model recommends.
  Row sampled_answer(int32_t depth, int32_t batch) {
    return measure({.kind = "tg",
                    .count = settings_.tokens,
                    .depth = depth,
                    .batch = batch,
                    .chain = settings_.chain,
                    .sampled = true},
                   [this, batch] {
                     const SamplerOptions options = recommended_sampling(model_.file().metadata);
                     if (settings_.chain > 1) return decode_chained(batch, options);
                     decode_sampled(batch, options);
                   });
  }

 private:
  template <typename Run>
  Row measure(Row row, const Run& run) {
    row.threads = model_.threads();
    Progress bar(fmt::format("{}, {} threads", row.test(), row.threads));
    while (sequences_ < row.batch) session_.open(), ++sequences_;
    for (int32_t r = -1; r < settings_.repetitions; ++r) {  // run -1 warms up
      for (int32_t i = 0; i < row.batch; ++i) go_to(i, row.depth);
      const Backend& backend = model_.backend();
      const double waited = backend.waited(), start = seconds_now();
      run();
      const double seconds = seconds_now() - start;
      if (r >= 0) row.speeds.push_back(row.count * row.batch / seconds);
      if (r >= 0 && !backend.runs_on_host())
        row.host.push_back((seconds - (backend.waited() - waited)) / (row.count * row.batch));
      bar.show(r + 2, settings_.repetitions + 1);
    }
    return row;
  }

  // The next `count` tokens of a sequence; those of others are different.
  void feed(int32_t sequence, int32_t count) {
    const int32_t end = session_.position(sequence) + count;
    for (int32_t at; (at = session_.position(sequence)) < end;) {
      const int32_t rows = std::min(end - at, model_.options().chunk);
      const RunPart part = {
          sequence,
          std::span(tokens_).subspan(static_cast<size_t>(sequence + at), static_cast<size_t>(rows)),
          at + rows == end ? 1 : 0};
      session_.run({&part, 1});
    }
  }

  void decode(int32_t batch) {
    std::vector<int32_t> next(tokens_.begin(), tokens_.begin() + batch);
    std::vector<RunPart> parts;
    const Wants wants = settings_.logits ? Wants::kLogits : Wants::kBest;
    for (int32_t i = 0; i < batch; ++i)
      parts.push_back({i, {&next[static_cast<size_t>(i)], 1}, 1, wants});
    for (int32_t step = 0; step < settings_.tokens; ++step) {
      session_.run(parts);
      for (int32_t i = 0; i < batch; ++i)
        next[static_cast<size_t>(i)] =
            settings_.logits ? tokens_[static_cast<size_t>(step + i)] : session_.best(i);
    }
  }

  void decode_sampled(int32_t batch, const SamplerOptions& options) {
    std::vector<Sampler> samplers(static_cast<size_t>(batch), Sampler(options));
    std::vector<std::vector<int32_t>> histories(static_cast<size_t>(batch));
    std::vector<RunPart> parts(static_cast<size_t>(batch));
    for (size_t i = 0; i < parts.size(); ++i) histories[i].push_back(tokens_[i]);
    const Wants wants = wants_of(samplers[0]);
    for (int32_t step = 0; step < settings_.tokens; ++step) {
      for (size_t i = 0; i < parts.size(); ++i)
        parts[i] = {static_cast<int32_t>(i), {&histories[i].back(), 1}, 1, wants};
      session_.run(parts);
      model_.pool().parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          histories[i].push_back(
              draw(session_, static_cast<int32_t>(i), samplers[i], histories[i]));
      });
    }
  }

  // Decodes several tokens of each sequence in one submission to the device (chained decode).
  void decode_chained(int32_t batch, const SamplerOptions& options) {
    std::vector<Sampler> samplers(static_cast<size_t>(batch), Sampler(options));
    std::vector<std::vector<int32_t>> histories(samplers.size());
    std::vector<RunPart> parts(samplers.size());
    std::vector<ChainRow> rows(samplers.size());
    for (size_t i = 0; i < parts.size(); ++i) histories[i].push_back(tokens_[i]);
    for (int32_t left = settings_.tokens; left > 0;) {
      for (size_t i = 0; i < parts.size(); ++i)
        parts[i] = {static_cast<int32_t>(i), {&histories[i].back(), 1}};
      const int32_t most =
          std::min({left, settings_.chain, session_.chain_steps(parts, !samplers[0].greedy())});
      for (size_t i = 0; most > 0 && i < parts.size(); ++i) {
        const auto row = samplers[i].chain_row(histories[i], most);
        if (row) rows[i] = *row;
        if (!row) return refuse_chain();
      }
      if (most == 0) return refuse_chain();
      session_.run_chain(parts, rows);
      for (size_t i = 0; i < parts.size(); ++i) {
        const std::span<const int32_t> made = session_.chosen(i);
        if (std::ssize(made) < most) return refuse_chain();
        for (size_t k = 0; k < made.size(); ++k) samplers[i].count_draw();
        histories[i].insert(histories[i].end(), made.begin(), made.end());
      }
      left -= most;
    }
  }
  void refuse_chain() const {
    throw Error(ErrorKind::kUnsupported,
                "--chain {}: {} decodes one token at a time with this model and its settings",
                settings_.chain, !model_.backend().runs_on_host() ? "the device" : "the CPU");
  }

  void go_to(int32_t sequence, int32_t depth) {
    if (session_.can_rewind(sequence, depth)) return session_.rewind(sequence, depth);
    session_.rewind(sequence, 0);
    feed(sequence, depth);
    session_.save(sequence);
  }

  Model& model_;
  Settings settings_;
  Session session_;
  int32_t sequences_ = 0;  ///< that are open
  std::vector<int32_t> tokens_;
};

void compare_with_first(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const auto first = std::find_if(rows.begin(), rows.end(),
                                    [&](const Row& other) { return other.is_like(row); });
    row.ratio = median(row.speeds) / median(first->speeds);
  }
}

Json to_json(const std::vector<Row>& rows, bool sweep) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json item = {{"test", row.test()},
                 {"tokens_per_second", median(row.speeds)},
                 {"min", row.least()},
                 {"max", row.most()},
                 {"threads", row.threads}};
    if (!row.host.empty()) item["host_us_per_token"] = 1e6 * median(row.host);
    if (row.kind == "emb") item["texts_per_second"] = row.texts_per_second();
    if (sweep) {
      item["depth"] = row.depth;
      item["batch"] = row.batch;
      item["ratio"] = row.ratio;
    }
    list.push_back(std::move(item));
  }
  return list;
}

void print(const std::vector<Row>& rows) {
  Output& out = standard_output();
  const bool texts = rows.front().kind == "emb";
  out.line(fmt::format("{:<18}{:>12}{:>12}{:>12}{}", "test", "tok/s", "min", "max",
                       texts ? fmt::format("{:>12}", "texts/s") : ""));
  for (const Row& row : rows)
    out.line(fmt::format("{:<18}{:>12.2f}{:>12.2f}{:>12.2f}{}", row.test(), median(row.speeds),
                         row.least(), row.most(),
                         texts ? fmt::format("{:>12.2f}", row.texts_per_second()) : ""));
}

/// Groups the rows by test, so that the values of one sweep stand below each other.
void print_sweep(const std::vector<Row>& rows) {
  Output& out = standard_output();
  out.line(fmt::format("{:<14}{:>9}{:>9}{:>9}{:>12}{:>12}{:>12}{:>9}", "test", "threads", "depth",
                       "batch", "tok/s", "min", "max", "ratio"));
  const auto name_of = [](const Row& row) {
    return fmt::format("{}{}{}", row.kind, row.count, row.sampled ? " sampled" : "");
  };
  for (const std::string_view kind : {"pp", "tg", "tg sampled", "emb"})
    for (const Row& row : rows)
      if (kind == row.kind + (row.sampled ? " sampled" : ""))
        out.line(fmt::format("{:<14}{:>9}{:>9}{:>9}{:>12.2f}{:>12.2f}{:>12.2f}{:>9.2f}",
                             name_of(row), row.threads, row.depth, row.batch, median(row.speeds),
                             row.least(), row.most(), row.ratio));
}

void print_model(Model& model, bool sweep) {
  const auto summary = summarize(model.file());
  standard_output().line(fmt::format("{}: {}, {} of weights, {}{}, loaded in {:.2f} s",
                                     model.path(), model.config().architecture,
                                     human_bytes(static_cast<double>(summary.weight_bytes)),
                                     sweep ? "" : fmt::format("{} threads, ", model.threads()),
                                     name(model.target()), model.load_seconds()));
}

/// Returns 1, 2, 4, ... and the number of cores that this process may use.
std::vector<int32_t> all_thread_counts() {
  std::vector<int32_t> counts;
  for (int32_t count = 1; count < available_cores(); count *= 2) counts.push_back(count);
  counts.push_back(available_cores());
  return counts;
}

std::vector<int32_t> parse_numbers(std::string_view text, const std::string& what, int32_t least,
                                   int32_t most) {
  std::vector<int32_t> numbers;
  for (size_t at = 0; at <= text.size();) {
    const std::string_view part = text.substr(at, text.find(',', at) - at);
    int32_t number = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (failure != std::errc() || end != part.data() + part.size() || number < least ||
        number > most)
      throw Misuse("--sweep", fmt::format("{}: found '{}', expected a number from {} to {}", what,
                                          escaped(part), least, most));
    numbers.push_back(number);
    at += part.size() + 1;
  }
  return numbers;
}

/// Parses "NAME" or "NAME=LIST".
void read_sweep(const std::string& text, Sweep& sweep) {
  struct Name {
    const char* name;
    std::vector<int32_t>& values;
    int32_t least, most;
    std::vector<int32_t> usual;
  };
  Name names[] = {{"threads", sweep.threads, 1, most_threads(), all_thread_counts()},
                  {"depth", sweep.depths, 0, 1 << 24, {0, 512, 1024, 2048}},
                  {"batch", sweep.batches, 1, kMaxSequences, {1, 2, 4, 8, 16}},
                  {"length", sweep.lengths, 1, 1 << 24, {16, 64, 256, 512}}};
  const size_t equals = text.find('=');
  for (Name& known : names) {
    if (text.substr(0, equals) != known.name) continue;
    known.values = equals == std::string::npos
                       ? known.usual
                       : parse_numbers(std::string_view(text).substr(equals + 1), known.name,
                                       known.least, known.most);
    return;
  }
  throw Misuse("--sweep", not_one_of(text, {"threads", "depth", "batch", "length"}));
}

/// Returns the number of texts that `veery embed` runs together.
int32_t usual_batch(int32_t length) {
  return std::clamp(Embedder::kRunTokens / length, 1, kMaxSequences);
}

/// Refuses flags that an encoder does not support.
void check_encoder(const Settings& settings, const Sweep& sweep) {
  if (settings.depth > 0 || !sweep.depths.empty())
    throw Misuse("--depth", "an encoder has no KV cache");
  if (settings.sampled || settings.logits || settings.chain > 1)
    throw Misuse(settings.sampled  ? "--sampled"
                 : settings.logits ? "--logits"
                                   : "--chain",
                 "an encoder predicts no next token");
}

/// Returns the list of a sweep, or the single value of the flag.
std::vector<int32_t> list_or(const std::vector<int32_t>& list, int32_t one) {
  return list.empty() ? std::vector{one} : list;
}

void measure_encoder(Model& model, Settings settings, const Sweep& sweep, std::vector<Row>& rows) {
  check_encoder(settings, sweep);
  const int32_t context = model.options().context;
  if (!settings.prompt_given) settings.prompt = std::min(settings.prompt, context);
  EncoderBench bench(model, settings.repetitions);
  for (const int32_t length : list_or(sweep.lengths, settings.prompt)) {
    if (length < 1 || length > context)
      throw Error(ErrorKind::kInput, "--sweep length: found {} tokens, expected 1 to {}", length,
                  context);
    for (const int32_t batch :
         list_or(sweep.batches, settings.batch_given ? settings.batch : usual_batch(length)))
      rows.push_back(bench.measure(length, batch));
  }
}

void measure_decoder(Model& model, const Settings& settings, const Sweep& sweep,
                     std::vector<Row>& rows) {
  const auto batches = list_or(sweep.batches, settings.batch);
  Bench bench(model, settings, *std::max_element(batches.begin(), batches.end()));
  for (const int32_t depth : list_or(sweep.depths, settings.depth)) {
    for (const int32_t length : list_or(sweep.lengths, settings.prompt))
      if (length > 0) rows.push_back(bench.prompt(depth, length));
    if (settings.tokens == 0) continue;
    for (const int32_t batch : batches) {
      rows.push_back(bench.answer(depth, batch));
      if (settings.sampled) rows.push_back(bench.sampled_answer(depth, batch));
    }
  }
}

/// Loads the model again for each number of threads, since its weights are placed for that number.
std::vector<Row> run_all(ModelArguments& flags, const Settings& settings, const Sweep& sweep) {
  const auto depths = list_or(sweep.depths, settings.depth);
  const auto lengths = list_or(sweep.lengths, settings.prompt);
  const bool encoder = read_config(open_model(flags.path)).attention.mask != Mask::kCausal;
  LoadOptions options;
  if (encoder)
    options.entry = text_entry;
  else
    options.context = *std::max_element(depths.begin(), depths.end()) +
                      std::max(*std::max_element(lengths.begin(), lengths.end()), settings.tokens);
  std::vector<Row> rows;
  bool printed = flags.json;
  for (const int32_t count : list_or(sweep.threads, flags.threads)) {
    flags.threads = count;
    flags.executor.reset();
    Model model = flags.load(options);
    if (!std::exchange(printed, true)) print_model(model, sweep.wanted());
    if (encoder)
      measure_encoder(model, settings, sweep, rows);
    else
      measure_decoder(model, settings, sweep, rows);
  }
  compare_with_first(rows);
  return rows;
}

void add_settings(Arguments& app, Settings& settings) {
  const auto add = [&](const std::string& option, int32_t& value, const std::string& what,
                       int least, int most = 1 << 24) {
    app.option(option, value, what).type_name("N").whole_number(least, most).show_default();
  };
  add("-p,--n-prompt", settings.prompt,
      "Prompt tokens of pp, or tokens of a text for an encoder; 0: no pp", 0);
  add("-n,--n-gen", settings.tokens, "Decoded tokens of tg; 0: no tg", 0);
  add("-r,--repetitions", settings.repetitions, "Measured runs of each test", 1);
  add("-d,--depth", settings.depth, "Context length before each test, in tokens", 0);
  add("-b,--batch", settings.batch,
      "Sequences decoded together; the speed counts the tokens of all.\nFor an encoder: texts per "
      "run (by default as many as 'veery embed' uses).",
      1, kMaxSequences);
  app.flag("--logits", settings.logits,
           "Compute all logits in tg, as sampling does (else only the argmax)");
  app.flag("--sampled", settings.sampled,
           "Also measure sampled decoding (the model's recommended settings)");
  add("--chain", settings.chain, "Tokens that a GPU decodes per submission in tg; 1: no chaining",
      1, 128);
}

}  // namespace

void bench_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  Settings settings;
  Arguments app("bench",
                "Measures speed in tokens per second (median run): pp is the prefill of a prompt, "
                "tg is decoding; for an encoder, emb is a batch of texts. Each test warms up once.",
                "  veery bench model.gguf -p 512 -n 128 -r 5\n"
                "  veery bench model.gguf --sweep batch --sweep depth=0,1024,4096");
  flags.add_path(app);
  add_settings(app, settings);
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_device(app);
  flags.add_gpu_layers(app);
  std::vector<std::string> sweeps;
  app.option("--sweep", sweeps,
             "Repeat the tests for each value of threads, depth, batch or length.\nNAME alone uses "
             "a default list. Repeatable; prints ratios to the first value.")
      .type_name("NAME[=LIST]")
      .choices({"threads", "depth", "batch", "length"});
  flags.add_json(
      app,
      "Print a JSON array: test, tokens_per_second, min, max, threads.\nAlso "
      "host_us_per_token (GPU), texts_per_second (encoder),\ndepth, batch, ratio (--sweep).");
  app.read(std::move(arguments));
  if (settings.chain > 1 && settings.logits)
    throw Misuse("--chain", "excludes --logits: chained decoding copies no logits to the host");
  settings.prompt_given = app.count("--n-prompt") > 0;
  settings.batch_given = app.count("--batch") > 0;
  if (settings.prompt == 0 && settings.tokens == 0)
    throw Misuse("-p", "found 0 for -p and -n, expected a test to measure");

  Sweep sweep;
  for (const std::string& text : sweeps) read_sweep(text, sweep);
  const std::vector<Row> rows = run_all(flags, settings, sweep);
  if (flags.json)
    standard_output().json(to_json(rows, sweep.wanted()));
  else if (sweep.wanted())
    print_sweep(rows);
  else
    print(rows);
}

}  // namespace veery::cli
