// verify.cc: `veery verify`: checks a model and prints the table of checks.
#include "verify/verify.h"

#include "base/json.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/output/interruption.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_table.h"
#include "cli/verbs/verbs.h"

namespace veery::cli {
namespace {

constexpr int kDefects = 1;
constexpr size_t kLongestCell = 1000;  // bytes

void print(const Check& check) {
  Output& out = standard_output();
  out.line(fmt::format("{:<8}{:<26}{}", name(check.state), check.name,
                       printable(check.found, kLongestCell)));
  if (check.state == CheckState::kOk || check.state == CheckState::kSkipped) return;
  if (!check.expected.empty())
    out.line(fmt::format("{:34}expected: {}", "", printable(check.expected, kLongestCell)));
  if (!check.hint.empty())
    out.line(fmt::format("{:34}{}", "", printable(check.hint, kLongestCell)));
}

Json to_json(const std::string& path, const Report& report) {
  Json checks = Json::array();
  for (const Check& check : report.checks())
    checks.push_back({{"name", check.name},
                      {"state", name(check.state)},
                      {"found", check.found},
                      {"expected", check.expected},
                      {"hint", check.hint}});
  return {{"model", path},
          {"sound", report.sound()},
          {"warnings", report.count(CheckState::kWarn)},
          {"defects", report.count(CheckState::kFail)},
          {"checks", std::move(checks)}};
}

}  // namespace

void verify_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  VerifyOptions options;
  OutputFlags output;
  Arguments app(
      "verify",
      "Checks the tensors, values, tokenizer, chat template and computation of a model and names "
      "each defect; with --reference also compares logits.\nExit status 1: the model has defects.",
      "  veery verify model.gguf\n"
      "  veery verify folder --reference reference.json");
  flags.add_path(app);
  app.option("--reference", options.reference, "Compare with recorded logits (JSON or safetensors)")
      .type_name("FILE")
      .files({"json", "safetensors"});
  app.option("--record", options.record,
             "Record the logits of this model to FILE if it has no defects")
      .type_name("FILE")
      .files({"json"});
  output.add(app, "Replace the file of --record if it exists");
  app.option("--tolerance", options.tolerance,
             "Accepted difference of a logit, relative to the largest logit")
      .type_name("X")
      .real_number(0, 1)
      .show_default();
  flags.add_threads(app);
  flags.add_json(app, "Print a JSON object: model, sound, warnings, defects, checks");
  app.read(std::move(arguments));
  options.threads = flags.threads;
  options.existing = output.existing();
  std::vector<std::string> replaced;
  options.replaced = &replaced;
  if (!options.record.empty()) output.check(options.record, {flags.path, options.reference});
  std::optional<Interruption> interruption;
  if (!options.record.empty()) interruption.emplace();
  Progress bar("verifying");
  options.progress = [&](const std::string& what, double done, double all) {
    bar.show(done, all, what);
  };
  if (!flags.json)
    options.on_check = [&](const Check& check) {
      bar.clear();
      print(check);
    };
  const Report report = verify(flags.path, options);
  bar.clear();
  if (flags.json) {
    Json json = to_json(flags.path, report);
    if (!options.record.empty()) json["replaced"] = replaced;
    standard_output().json(json);
  } else {
    const auto defects = report.count(CheckState::kFail);
    standard_output().line(fmt::format(
        "{}, {} warning{}", defects == 0 ? "sound" : fmt::format("{} failed", defects),
        report.count(CheckState::kWarn), report.count(CheckState::kWarn) == 1 ? "" : "s"));
    report_replaced(replaced);
  }
  if (!report.sound()) throw Status{kDefects};
}

}  // namespace veery::cli
