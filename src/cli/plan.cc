// plan.cc: `veery plan`: the table of dispatches that a run goes through, and what each row costs.
#include <algorithm>
#include <functional>

#include "cli/cli.h"
#include "cli/output.h"
#include "engine/session.h"

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
  double seconds = 0;  ///< of one run
};

std::string place_of(const Plan& plan, const Operand& out) {
  const std::less<> before;
  if (out.layout == Layout::kKeyPages || out.layout == Layout::kValuePages) return "cache";
  if (!out || before(out.data, plan.arena()) ||
      !before(out.data, plan.arena() + plan.arena_bytes()))
    return "-";
  return fmt::format("{}", out.data - plan.arena());
}

/// Types of the weights and caches that a dispatch reads, then that of its result.
std::string types_of(const Dispatch& dispatch) {
  std::vector<std::string_view> names;
  for (const Operand& in : dispatch.in) {
    const bool stored = in.layout == Layout::kPanels || in.layout == Layout::kKeyPages ||
                        in.layout == Layout::kValuePages;
    const std::string_view type = info(in.dtype).name;
    if (stored && std::find(names.begin(), names.end(), type) == names.end()) names.push_back(type);
  }
  std::string text;
  for (std::string_view type : names) text += fmt::format("{}{}", text.empty() ? "" : "+", type);
  const std::string_view result = info(dispatch.out.dtype).name;
  return text.empty() ? std::string(result) : fmt::format("{}->{}", text, result);
}

std::vector<Row> make_rows(const Plan& plan, const RunSize& size,
                           const std::vector<double>& seconds) {
  std::vector<Row> rows;
  for (size_t i = 0; i < plan.table().size(); ++i) {
    const Dispatch& dispatch = plan.table()[i];
    rows.push_back({.label = &plan.labels()[i],
                    .shape = to_string(plan.graph()[plan.labels()[i].node].shape),
                    .types = types_of(dispatch),
                    .place = place_of(plan, dispatch.out),
                    .cost = cost(plan, i, size),
                    .seconds = seconds.empty() ? 0 : seconds[i]});
  }
  return rows;
}

/// Seconds of each row of the table in one run, the mean of some.
std::vector<double> profile(Session& session, Plan& plan, const Settings& settings) {
  const std::vector<int32_t> tokens(static_cast<size_t>(settings.rows), 1);
  session.feed(tokens);  // fills the slots, which stay as they are: the plan can be run again
  std::vector<double> seconds;
  for (int32_t r = 0; r < settings.repetitions; ++r) plan.run_profiled(seconds);
  for (double& value : seconds) value /= settings.repetitions;
  return seconds;
}

Json to_json(const std::vector<Row>& rows, const Plan& plan, bool profiled) {
  Json list = Json::array();
  double seconds = 0;
  for (const Row& row : rows) {
    seconds += row.seconds;
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
    if (profiled) item["seconds"] = row.seconds;
    list.push_back(std::move(item));
  }
  Json all = {{"rows", plan.options().rows},
              {"target", name(plan.options().target)},
              {"arena_bytes", plan.arena_bytes()},
              {"table", std::move(list)}};
  if (profiled) all["seconds"] = seconds;
  return all;
}

double giga_rate(double amount, double seconds) { return seconds > 0 ? amount / seconds / 1e9 : 0; }

std::string measured(double seconds, double all, const DispatchCost& cost) {
  return fmt::format(" {:>9.1f} {:>5.1f} {:>7.1f} {:>9.1f}", seconds * 1e6, 100 * seconds / all,
                     giga_rate(cost.bytes(), seconds), giga_rate(cost.flops, seconds));
}

void print(const std::vector<Row>& rows, const Plan& plan, bool profiled) {
  Output& out = standard_output();
  DispatchCost total;
  double seconds = 0;
  size_t kernel = 6, detail = 6, types = 5;
  for (const Row& row : rows) {
    total.weight_bytes += row.cost.weight_bytes;
    total.state_bytes += row.cost.state_bytes;
    total.value_bytes += row.cost.value_bytes;
    total.flops += row.cost.flops;
    seconds += row.seconds;
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
  const std::string titles =
      profiled ? fmt::format(" {:>9} {:>5} {:>7} {:>9}", "us", "%", "GB/s", "GFLOP/s") : "";
  out.line(line("row", "op", "kernel", "detail", "shape", "dtype", "bytes", "arena") + titles);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out.line(line(i, row.label->op, row.label->kernel, row.label->detail, row.shape, row.types,
                  human_bytes(row.cost.bytes()), row.place) +
             (profiled ? measured(row.seconds, seconds, row.cost) : ""));
  }
  out.line(fmt::format(
      "total: {} rows of the table for up to {} tokens, {} ({} of weights), "
      "{:.1f} MFLOP, arena {}, {}",
      rows.size(), plan.options().rows, human_bytes(total.bytes()), human_bytes(total.weight_bytes),
      total.flops / 1e6, human_bytes(static_cast<double>(plan.arena_bytes())),
      name(plan.options().target)));
  if (profiled)
    out.line(fmt::format("run: {:.1f} us, {:.1f} GB/s, {:.1f} GFLOP/s", seconds * 1e6,
                         giga_rate(total.bytes(), seconds), giga_rate(total.flops, seconds)));
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
  app.add_option("--rows", settings.rows, "Tokens of the run")
      ->type_name("N")
      ->check(in_range(1, 512))
      ->capture_default_str();
  app.add_flag("--profile", settings.profile, "Measure time, GB/s and GFLOP/s of each row");
  app.add_option("-d,--depth", settings.depth, "Tokens in the cache before the run")
      ->type_name("N")
      ->check(in_range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("-r,--repetitions", settings.repetitions, "Runs that --profile takes the mean of")
      ->type_name("N")
      ->check(in_range(1, 100000))
      ->capture_default_str();
  app.add_flag("--unfused", unfused, "The table before fusion");
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print one JSON object: rows, target, arena_bytes, table");
  app.read(std::move(arguments));

  LoadOptions options;
  options.fuse = !unfused;
  options.context = std::max(settings.depth + settings.rows, 16);
  Model model = flags.load(options);
  Session session(model);
  if (settings.depth > 0)
    session.feed(std::vector<int32_t>(static_cast<size_t>(settings.depth), 1));
  Plan& plan = session.plan(settings.rows);
  const std::vector<double> seconds =
      settings.profile ? profile(session, plan, settings) : std::vector<double>();
  const auto rows = make_rows(
      plan, {.rows = settings.rows, .outputs = 1, .context = settings.depth + settings.rows},
      seconds);
  if (flags.json) {
    standard_output().json(to_json(rows, plan, settings.profile));
  } else {
    print(rows, plan, settings.profile);
  }
}

}  // namespace veery::cli
