// plan.cc: `veery plan`: the table of dispatches that a run goes through, and what each row costs.
#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "cli/parts/cli.h"
#include "cli/parts/limits.h"
#include "cli/parts/output.h"
#include "cli/parts/progress.h"
#include "dtype/fp8.h"
#include "engine/embed.h"
#include "engine/sequence_reader.h"

namespace veery::cli {
namespace {

struct Settings {
  int32_t rows = 1, depth = 0, repetitions = 20;
  bool profile = false;
};

struct Row {
  const Label* label = nullptr;
  std::string shape, types, place;
  DispatchCost cost;
  Arithmetic products = Arithmetic::kF32;
  double seconds = 0;  ///< of one run
  Bound bound;
};

/// What --profile measures.
struct Profile {
  std::vector<double> seconds;  ///< of each row of the table
  double whole = 0;             ///< of a run on a device, whose rows go over into each other
  Limits limits;
};

std::string place_of(const Plan& plan, const Operand& out) {
  const std::less<> before;
  if (is_state(out)) return "cache";
  if (!out || before(out.data, plan.arena()) ||
      !before(out.data, plan.arena() + plan.arena_bytes()))
    return "-";
  return fmt::format("{}", out.data - plan.arena());
}

/// Types of the weights and caches that a dispatch reads, then that of its result.
std::string types_of(const Dispatch& dispatch) {
  std::vector<std::string_view> names;
  for (const Operand& in : dispatch.in) {
    const bool stored = in_panels(in) || is_state(in);
    const std::string_view type = info(in.dtype).name;
    if (stored && std::find(names.begin(), names.end(), type) == names.end()) names.push_back(type);
  }
  std::string text;
  for (std::string_view type : names) text += fmt::format("{}{}", text.empty() ? "" : "+", type);
  const std::string_view result = info(dispatch.out().dtype).name;
  return text.empty() ? std::string(result) : fmt::format("{}->{}", text, result);
}

Arithmetic products_of(const Dispatch& dispatch, const Node& node, const Plan& plan,
                       std::string_view kernel, bool device) {
  auto found = Arithmetic::kF32;
  if (plan.options().exact) return found;
  if (kernel.ends_with("_relaxed")) return Arithmetic::kBf16;
  // On a device scores and values are chains of fma.
  const bool attends = !device && node.op == op::kAttend && node.as<AttendAttr>().shared == 0;
  for (const Operand& in : dispatch.in) {
    if (in_panels(in) && info(in.dtype).quantized && !is_fp8(in.dtype)) return Arithmetic::kInt8;
    if ((in_panels(in) || attends) && in.dtype == DType::kBF16) found = Arithmetic::kBf16;
  }
  return found;
}

std::vector<Row> make_rows(const Plan& plan, const RunSize& size, const Profile& profile,
                           bool device) {
  std::vector<Row> rows;
  for (size_t i = 0; i < plan.table().size(); ++i) {
    const Dispatch& dispatch = plan.table()[i];
    const Node& node = plan.graph()[plan.labels()[i].node];
    Row row{.label = &plan.labels()[i],
            .shape = to_string(node.shape()),
            .types = types_of(dispatch),
            .place = place_of(plan, dispatch.out()),
            .cost = cost(plan, i, size),
            .products = products_of(dispatch, node, plan, plan.labels()[i].kernel, device)};
    if (!profile.seconds.empty()) {
      row.seconds = profile.seconds[i];
      row.bound = bound(row.cost, row.products, profile.limits);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Medians over runs of a plan whose slots are filled, and stay as they are; the runs alternate
/// with the loops that find the limits.
Profile profile(Plan& plan, Model& model, const Settings& settings) {
  LimitMeter meter(model.pool(), model.target(), model.backend(), plan);
  Progress bar("profile");
  std::vector<std::vector<double>> samples(plan.table().size());
  std::vector<double> whole;
  for (int32_t r = 0; r < settings.repetitions; ++r) {
    meter.sample();
    std::vector<double> seconds;
    plan.run_profiled(seconds);
    for (size_t i = 0; i < seconds.size(); ++i) samples[i].push_back(seconds[i]);
    if (model.backend() != nullptr) {
      const double start = seconds_now();
      plan.run();
      whole.push_back(seconds_now() - start);
    }
    bar.show(r + 1, settings.repetitions);
  }
  Profile result;
  result.whole = median(std::move(whole));
  for (std::vector<double>& values : samples) result.seconds.push_back(median(std::move(values)));
  result.limits = meter.limits();
  return result;
}

/// All rows together.
struct Total {
  DispatchCost cost;
  double seconds = 0, least = 0, reading = 0;
  bool reads() const { return reading > least / 2; }  ///< mostly waits for memory
  double share() const { return seconds > 0 ? least / seconds : 0; }
};

Total total_of(const std::vector<Row>& rows) {
  Total total;
  for (const Row& row : rows) {
    total.cost.weight_bytes += row.cost.weight_bytes;
    total.cost.state_bytes += row.cost.state_bytes;
    total.cost.value_bytes += row.cost.value_bytes;
    total.cost.flops += row.cost.flops;
    total.seconds += row.seconds;
    total.least += row.bound.seconds;
    if (row.bound.limit == "memory") total.reading += row.bound.seconds;
  }
  return total;
}

double giga_rate(double amount, double seconds) { return seconds > 0 ? amount / seconds / 1e9 : 0; }

double share_of(const Row& row) { return row.seconds > 0 ? row.bound.seconds / row.seconds : 0; }

/// What the plan runs on: the instructions of a CPU, or a device.
std::string device_of(const Plan& plan, const Model& model) {
  return model.backend() != nullptr ? model.backend()->device().description()
                                    : std::string(name(plan.options().target));
}

Json to_json(const std::vector<Row>& rows, const Plan& plan, const Profile& profile,
             const std::string& device) {
  const bool profiled = !profile.seconds.empty();
  Json list = Json::array();
  for (const Row& row : rows) {
    Json item = {{"index", list.size()},
                 {"op", row.label->op},
                 {"kernel", row.label->kernel},
                 {"phase", row.label->phase},
                 {"detail", row.label->detail},
                 {"shape", row.shape},
                 {"dtype", row.types},
                 {"bytes", row.cost.bytes()},
                 {"weight_bytes", row.cost.weight_bytes},
                 {"flops", row.cost.flops},
                 {"place", row.place}};
    if (profiled) {
      item["seconds"] = row.seconds;
      item["limit"] = row.bound.limit;
      item["limit_seconds"] = row.bound.seconds;
      item["share"] = share_of(row);
    }
    list.push_back(std::move(item));
  }
  Json all = {{"rows", plan.options().rows},
              {"target", device},
              {"arena_bytes", plan.arena_bytes()},
              {"table", std::move(list)}};
  if (profiled) {
    const Total total = total_of(rows);
    const Limits& limits = profile.limits;
    all["seconds"] = total.seconds;
    all["weight_bytes_per_second"] = giga_rate(total.cost.weight_bytes, total.seconds) * 1e9;
    all["share"] = total.share();
    all["limits"] = {{"memory_bytes_per_second", limits.memory},
                     {"f32_operations_per_second", limits.f32},
                     {"bf16_operations_per_second", limits.bf16},
                     {"int8_operations_per_second", limits.int8},
                     {fmt::format("{}_seconds", limits.what_least), limits.least}};
    if (profile.whole > 0) all["run_seconds"] = profile.whole;
  }
  return all;
}

std::string measured(const Row& row, double all) {
  return fmt::format(" {:>9.1f} {:>5.1f} {:>7.1f} {:>9.1f} {:>7} {:>5.0f}", row.seconds * 1e6,
                     100 * row.seconds / all, giga_rate(row.cost.bytes(), row.seconds),
                     giga_rate(row.cost.flops, row.seconds), row.bound.limit, 100 * share_of(row));
}

void print_profile(const Total& total, const Profile& profile, const std::string& device,
                   int threads) {
  Output& out = standard_output();
  const Limits& limits = profile.limits;
  const double read = total.cost.weight_bytes + total.cost.state_bytes;
  const double rate = read / total.seconds;
  out.line(fmt::format(
      "run: {:.1f} us, {:.1f} GB/s of weights and cache{}, {:.1f} GFLOP/s; {:.0f} % "
      "of the limits",
      total.seconds * 1e6, rate / 1e9,
      total.reads() ? fmt::format(" ({:.0f} % of the read loop)", 100 * rate / limits.memory) : "",
      giga_rate(total.cost.flops, total.seconds), 100 * total.share()));
  if (profile.whole > 0)
    out.line(
        fmt::format("rows were timed one by one on the device; a run of all takes {:.1f} us "
                    "({:.1f} GB/s), its copies to and fro included",
                    profile.whole * 1e6, giga_rate(read, profile.whole)));
  const std::string of = profile.whole > 0 ? device : fmt::format("{} threads", threads);
  const std::string target = profile.whole > 0 ? "" : fmt::format(" ({})", device);
  out.line(
      fmt::format("limits of {}, measured between the runs: memory {:.1f} GB/s (a "
                  "plain read loop over the weights),\n  f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, "
                  "int8 {:.0f} GOP/s{}, {} {:.2f} us",
                  of, limits.memory / 1e9, limits.f32 / 1e9, limits.bf16 / 1e9, limits.int8 / 1e9,
                  target, limits.what_least, limits.least * 1e6));
}

void print(const std::vector<Row>& rows, const Plan& plan, const Profile& profile,
           const std::string& device, int threads) {
  Output& out = standard_output();
  const bool profiled = !profile.seconds.empty();
  const Total total = total_of(rows);
  size_t kernel = 6, detail = 6, types = 5;
  for (const Row& row : rows) {
    kernel = std::max(kernel, row.label->kernel.size());
    detail = std::max(detail, row.label->detail.size());
    types = std::max(types, row.types.size());
  }
  const auto line = [&](const auto& index, std::string_view op, std::string_view what,
                        std::string_view text, std::string_view shape, std::string_view type,
                        const std::string& bytes, std::string_view place) {
    return fmt::format("{:>5} {:<14} {:<{}} {:<{}} {:<18} {:<{}} {:>9} {:>9}", index, op, what,
                       kernel, text, detail, shape, type, types, bytes, place);
  };
  const std::string titles = profiled ? fmt::format(" {:>9} {:>5} {:>7} {:>9} {:>7} {:>5}", "us",
                                                    "%", "GB/s", "GFLOP/s", "limit", "share")
                                      : "";
  out.line(line("row", "op", "kernel", "detail", "shape", "dtype", "bytes", "arena") + titles);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out.line(line(i, row.label->op, row.label->kernel, row.label->detail, row.shape, row.types,
                  human_bytes(row.cost.bytes()), row.place) +
             (profiled ? measured(row, total.seconds) : ""));
  }
  out.line(
      fmt::format("total: {} rows of the table for up to {} tokens, {} ({} of weights), "
                  "{:.1f} MFLOP, arena {}, {}",
                  rows.size(), plan.options().rows, human_bytes(total.cost.bytes()),
                  human_bytes(total.cost.weight_bytes), total.cost.flops / 1e6,
                  human_bytes(static_cast<double>(plan.arena_bytes())), device));
  if (profiled) print_profile(total, profile, device, threads);
}

void show(Plan& plan, const RunSize& size, Model& model, const ModelArguments& flags,
          const Settings& settings) {
  const Profile measured = settings.profile ? profile(plan, model, settings) : Profile();
  const auto rows = make_rows(plan, size, measured, model.backend() != nullptr);
  const std::string device = device_of(plan, model);
  if (flags.json)
    standard_output().json(to_json(rows, plan, measured, device));
  else
    print(rows, plan, measured, device, model.threads());
}

void show_decoder(Model& model, const ModelArguments& flags, const Settings& settings) {
  SequenceReader reader(model);
  reader.feed(any_tokens(model, static_cast<size_t>(settings.depth)));
  Plan& plan = reader.plan(settings.rows);
  if (settings.profile) reader.feed(any_tokens(model, static_cast<size_t>(settings.rows)));
  show(plan, {.rows = settings.rows, .outputs = 1, .context = settings.depth + settings.rows},
       model, flags, settings);
}

/// One text of so many tokens.
void show_encoder(Model& model, const ModelArguments& flags, const Settings& settings) {
  if (settings.depth > 0) throw Misuse("--depth", "an encoder has no cache");
  Encoder encoder(model, model.entry().roots.begin()->first);
  const std::vector<int32_t> tokens = any_tokens(model, static_cast<size_t>(settings.rows));
  const TokenSequence text{tokens, {}};
  encoder.run({&text, 1});
  show(encoder.plan(settings.rows, 1),
       {.rows = settings.rows, .outputs = settings.rows, .context = settings.rows}, model, flags,
       settings);
}

}  // namespace

void plan_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  Settings settings;
  bool unfused = false;
  Arguments app(
      "plan",
      "Prints the table of dispatches that a run of N tokens goes through: kernel, shape, "
      "bytes moved,\nplace of the result in the memory of the plan.",
      "  veery plan model.gguf --rows 1 --profile");
  flags.add_path(app);
  app.option("--rows", settings.rows, "Tokens of the run")
      .type_name("N")
      .whole_number(1, 2048)
      .show_default();
  app.flag("--profile", settings.profile,
           "Measure time, GB/s and GFLOP/s of each row, and its share of what bounds it:\n"
           "memory, f32, bf16, int8 or a barrier (of a GPU: a launch), measured in between");
  app.option("-d,--depth", settings.depth, "Tokens in the cache before the run")
      .type_name("N")
      .whole_number(0, 1 << 24)
      .show_default();
  app.option("-r,--repetitions", settings.repetitions, "Runs that --profile takes the median of")
      .type_name("N")
      .whole_number(1, 100000)
      .show_default();
  app.flag("--unfused", unfused, "The table before fusion");
  flags.add_device(app);
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print one JSON object: rows, target, arena_bytes, table");
  app.read(std::move(arguments));

  LoadOptions options;
  options.fuse = !unfused;
  options.entry = text_entry;
  options.context = std::max(settings.depth + settings.rows, 16);
  options.chunk = std::max(settings.rows, options.chunk);
  Model model = flags.load(options);
  if (model.config().mask == Mask::kCausal)
    show_decoder(model, flags, settings);
  else
    show_encoder(model, flags, settings);
}

}  // namespace veery::cli
