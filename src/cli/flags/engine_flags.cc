#include "cli/flags/engine_flags.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "bridge/mlx_lm_engine.h"
#include "cli/output/output.h"

namespace veery::cli {
namespace {

// Flags that all backends support, by one of their names.
const std::set<std::string> kKnown = {"--backend", "--python", "--model",   "--prompt", "--file",
                                      "--system",  "--raw",    "--predict", "--temp",   "--top-k",
                                      "--top-p",   "--seed",   "--json",    "--quiet",  "--help",
                                      "--pull",    "PROMPT"};

void check_flags(const Arguments& app, std::string_view backend) {
  for (const OptionDescription& option : app.options()) {
    const bool known =
        option.positional || std::ranges::any_of(option.names, [](const std::string& name) {
          return kKnown.contains(name);
        });
    for (const std::string& name : option.names)
      if (!known && app.count(name) > 0)
        throw Misuse(name, fmt::format("the backend {} does not support it", backend));
  }
}

Json to_json(const EngineAnswer& answer, const EngineInfo& info, double load, double seconds) {
  return {{"text", answer.text},
          {"finish_reason", answer.finish_reason},
          {"model_type", info.model_type},
          {"timings",
           {{"load_s", load},
            {"prompt_tokens", answer.prompt_tokens},
            {"tokens", answer.tokens},
            {"seconds", seconds}}}};
}

}  // namespace

void EngineFlags::add(Arguments& app) {
  app.option_function(
         "--backend",
         [this](const std::string& name) {
           if (name != "veery" && name != "mlx_lm")
             throw Misuse("--backend", fmt::format("'{}' is not one of veery, mlx_lm", name));
           name_ = name;
         },
         "Backend: veery, or mlx_lm (mlx-lm, run by --python) [veery]")
      .type_name("NAME")
      .choices({"veery", "mlx_lm"});
  app.option("--python", python_, "Python interpreter that has mlx-lm")
      .type_name("PATH")
      .show_default();
}

void EngineFlags::answer(const Arguments& app, const std::string& model, const Question& question,
                         const EngineOptions& options) const {
  check_flags(app, name_);
  const double begun = seconds_now();
  MlxLmEngine backend(model, {.python = python_});
  const double loaded = seconds_now();
  const OnPiece print = [&](std::string_view piece) {
    if (!question.json) {
      standard_output().write(terminal_text(piece));
      standard_output().flush();
    }
    return true;
  };
  EngineAnswer answer;
  if (question.raw) {
    answer = backend.generate(question.prompt, options, print);
  } else {
    Json messages = Json::array();
    if (!question.system.empty())
      messages.push_back({{"role", "system"}, {"content", question.system}});
    messages.push_back({{"role", "user"}, {"content", question.prompt}});
    answer = backend.chat(messages, options, print);
  }
  const double seconds = seconds_now() - loaded;
  if (question.json)
    return standard_output().json(to_json(answer, backend.info(), loaded - begun, seconds));
  if (!answer.text.ends_with('\n')) standard_output().write("\n");
  standard_output().flush();
  if (!question.quiet)
    write_error(
        fmt::format("veery: mlx_lm: {} tokens of the prompt, {} of the answer in {:.2f} s\n",
                    answer.prompt_tokens, answer.tokens, seconds));
}

}  // namespace veery::cli
