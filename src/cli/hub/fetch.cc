// fetch.cc: `veery pull`: downloads a model from a hub.
#include "cli/hub/fetch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/arguments.h"
#include "cli/hub/pull.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "file/hub/repository.h"

namespace veery::cli {
namespace {

Pulled pull_with_bar(const std::string& name) {
  Progress bar("downloading");
  const PullView view{[&](uint64_t done, uint64_t all, const std::string& file) {
                        bar.show(static_cast<double>(done), static_cast<double>(all),
                                 fmt::format("{} of {}  {}", human_bytes(static_cast<double>(done)),
                                             human_bytes(static_cast<double>(all)), escaped(file)));
                      },
                      [&](const std::string& line) {
                        bar.clear();
                        write_error(fmt::format("veery: {}\n", printable(line, 500)));
                      }};
  return pull_model(name, hub_settings(), model_places(), view);
}

bool is_there(const std::string& model) {
  if (path_exists(model)) return true;
  try {
    return !find_named_model(model, model_places()).empty();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound)
      return false;  // the machine has another file of the model
    throw;
  }
}

// Asks the user of the terminal. Returns nothing if there is no terminal.
std::optional<bool> ask(const std::string& question) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) return std::nullopt;
  write_error(question + " [Y/n] ");
  std::string line;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n') line += c;
  line = lower_ascii(line);
  // The end of the input does not count as agreement.
  return c == '\n' && (line.empty() || line == "y" || line == "yes");
}

}  // namespace

void FetchFlags::add(Arguments& app) {
  const Option yes =
      app.flag("-y,--yes,--pull", pull, "Download MODEL without asking if it is missing");
  app.flag("--offline", offline, "Download nothing (also HF_HUB_OFFLINE=1)").excludes(yes);
}

void fetch_if_missing(const std::string& model, const FetchFlags& flags) {
  if (flags.offline || is_there(model)) return;
  const std::string known = repository_of(model);
  const std::string repository = known.empty() ? model : known;
  if (flags.pull) {
    pull_with_bar(model);
    return;
  }
  const std::string name = parse_repository(repository).repository;
  const bool on_hub = name.find('/') != std::string::npos && !lower_ascii(model).ends_with(".gguf");
  if (!on_hub || hub_offline()) return;
  const std::string from = fmt::format("{} of {}", escaped(repository), hub_settings().endpoint);
  const auto agreed =
      ask(fmt::format("{} is not on this machine. Download {}?", escaped(model), from));
  if (!agreed && !known.empty())
    write_error(fmt::format("veery: {} is not on this machine: downloading {}\n", model, from));
  if (agreed.value_or(!known.empty())) pull_with_bar(model);
}

void pull_verb(std::vector<std::string> arguments) {
  std::string name;
  bool json = false;
  Arguments app("pull",
                "Downloads a model from Hugging Face's hub (or HF_ENDPOINT) into its cache and "
                "prints the path. Complete files are kept, partial downloads resume.",
                "  veery pull Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
                "  veery run Qwen/Qwen3-0.6B-GGUF:Q8_0 -p Hello\n"
                "  HF_TOKEN=... veery pull google/gemma-3-270m-it");
  app.option("MODEL", name,
             "ORG/NAME, ORG/NAME:FILE, or smollm2, gemma3 or minilm.\nFILE is the name of a GGUF "
             "file or its end, such as Q8_0. Without FILE: a folder of safetensors, else the "
             "Q4_K_M or only GGUF file.")
      .required();
  app.flag("--json", json, "Print a JSON object: path, commit, files, bytes, fetched");
  app.read(std::move(arguments));
  if (repository_of(name).empty() &&
      parse_repository(name).repository.find('/') == std::string::npos)
    throw Misuse("MODEL", fmt::format("found '{}', expected "
                                      "ORG/NAME[:FILE] or a known name",
                                      printable(name)));
  const Pulled pulled = pull_with_bar(name);
  if (!json) return standard_output().line(escaped(pulled.path));
  standard_output().json({{"path", pulled.path},
                          {"commit", pulled.commit},
                          {"files", pulled.files},
                          {"bytes", pulled.bytes},
                          {"fetched", pulled.fetched}});
}

}  // namespace veery::cli
