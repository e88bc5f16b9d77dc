// plan.cc: `veery plan`: prints the dispatches of a run and their cost.
#include <algorithm>

#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/profile/plan_table.h"
#include "cli/verbs/verbs.h"
#include "engine/sequence_reader.h"
#include "serve/models/memory_plan.h"
#include "tasks/embed.h"

namespace veery::cli {
namespace {

struct Settings {
  int32_t rows = 1, depth = 0, repetitions = 20;
  bool profile = false;
  bool serve = false;
  int64_t memory = 0;  ///< megabytes
};

// Prints the memory plan of `veery serve` with the same flags, from the same function.
void show_memory(ModelArguments& flags, const SchedulerFlags& scheduler, const Settings& settings) {
  Progress bar("planning");
  serve::ModelSource source{.path = flags.path,
                            .load = flags.load_options(bar, {}),
                            .scheduler = scheduler.options(flags)};
  bar.clear();
  const serve::MemoryPlan plan =
      serve::fit_memory(source, static_cast<size_t>(settings.memory) * 1'000'000);
  const serve::ModelBytes& bytes = plan.bytes;
  if (flags.json)
    return standard_output().json({{"weight_bytes", bytes.weights},
                                   {"cache_bytes", bytes.caches},
                                   {"activation_bytes", bytes.activations.total()},
                                   {"draft_bytes", bytes.drafts},
                                   {"bytes", bytes.total()},
                                   {"context", plan.context},
                                   {"slots", plan.slots},
                                   {"note", plan.note}});
  const auto row = [](std::string_view name, size_t value) {
    standard_output().line(
        fmt::format("{:<12}{:>15}  {}", name, value, human_bytes(static_cast<double>(value))));
  };
  row("weights", bytes.weights);
  row("KV cache", bytes.caches);
  row("activations", bytes.activations.total());
  if (bytes.drafts > 0) row("draft model", bytes.drafts);
  row("total", bytes.total());
  standard_output().line(fmt::format("context {}, {} answers at a time", plan.context, plan.slots));
  if (!plan.note.empty()) standard_output().line("memory is short: " + plan.note);
}

void show(Plan& plan, const RunSize& size, const ModelArguments& flags, const Settings& settings) {
  PlanTable table(plan, size);
  if (settings.profile) {
    Progress bar("profile");
    table.profile(settings.repetitions, [&](int32_t done, int32_t all) { bar.show(done, all); });
  }
  if (settings.profile)
    for (const std::string& doubt : table.doubts())
      write_error(fmt::format("veery: warning: {}\n", escaped(doubt)));
  if (flags.json) return standard_output().json(table.json());
  for (const std::string& line : table.lines()) standard_output().line(line);
}

void show_decoder(Model& model, const ModelArguments& flags, const Settings& settings) {
  SequenceReader reader(model);
  reader.feed(any_tokens(model, static_cast<size_t>(settings.depth)));
  Plan& plan = reader.plan(settings.rows);
  if (settings.profile) reader.feed(any_tokens(model, static_cast<size_t>(settings.rows)));
  show(plan, {.rows = settings.rows, .outputs = 1, .context = settings.depth + settings.rows},
       flags, settings);
}

/// The run of one text of settings.rows tokens.
void show_encoder(Model& model, const ModelArguments& flags, const Settings& settings) {
  if (settings.depth > 0) throw Misuse("--depth", "an encoder has no KV cache");
  Encoder encoder(model, model.entry().roots.begin()->first);
  const std::vector<int32_t> tokens = any_tokens(model, static_cast<size_t>(settings.rows));
  const TokenSequence text{tokens, {}};
  encoder.run({&text, 1});
  show(encoder.plan(settings.rows, 1),
       {.rows = settings.rows, .outputs = settings.rows, .context = settings.rows}, flags,
       settings);
}

}  // namespace

void plan_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  Settings settings;
  SchedulerFlags scheduler;
  bool unfused = false;
  Arguments app(
      "plan",
      "Prints the plan of a run, one kernel per row: shape, bytes moved, and the offset of "
      "the result in the plan's memory.",
      "  veery plan model.gguf --rows 1 --profile");
  flags.add_path(app);
  app.option("--rows", settings.rows, "Token rows of the run (1: a decode step)")
      .type_name("N")
      .whole_number(1, 2048)
      .show_default();
  app.flag("--profile", settings.profile,
           "Measure each row: time, GB/s, GFLOP/s and share of its limit.\nLimits: "
           "peak rates of memory, f32, bf16 and int8; barrier (GPU: launch) time.");
  app.option("-d,--depth", settings.depth, "Context length before the run, in tokens")
      .type_name("N")
      .whole_number(0, 1 << 24)
      .show_default();
  app.option("-r,--repetitions", settings.repetitions, "Runs of --profile; it reports their median")
      .type_name("N")
      .whole_number(1, 100000)
      .show_default();
  app.flag("--unfused", unfused, "Print the plan before fusion");
  app.flag("--serve", settings.serve,
           "Instead, print the memory that 'veery serve' needs with these flags");
  app.option("--memory", settings.memory, "With --serve: limit of memory in megabytes; 0: none [0]")
      .type_name("MB")
      .whole_number(0, 1 << 24);
  scheduler.add(app);
  flags.add_context(app);
  flags.add_device(app);
  flags.add_gpu_layers(app);
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_json(app, "Print a JSON object: rows, target, arena_bytes, table; with --serve bytes");
  app.read(std::move(arguments));
  scheduler.note_given(app);
  if (settings.serve) return show_memory(flags, scheduler, settings);
  for (const char* flag : {"--memory", "--cache-memory", "--parallel", "--keep", "--ctx-size",
                           "--draft-model", "--draft-max"})
    if (app.count(flag) > 0) throw Misuse(flag, "needs --serve");

  LoadOptions options;
  options.fuse = !unfused;
  options.entry = text_entry;
  options.context = std::max(settings.depth + settings.rows, 16);
  options.chunk = std::max(settings.rows, options.chunk);
  Model model = flags.load(options);
  if (model.config().attention.mask == Mask::kCausal)
    show_decoder(model, flags, settings);
  else
    show_encoder(model, flags, settings);
}

}  // namespace veery::cli
