// fetch.cc: `veery pull`: fetches a model from a hub.
#include "cli/hub/fetch.h"

#include "cli/hub/pull.h"
#include "cli/parts/output.h"
#include "cli/parts/progress.h"

namespace veery::cli {
namespace {

Pulled pull_with_bar(const std::string& name) {
  Progress bar("fetching");
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
    if (error.kind() == ErrorKind::kNotFound) return false;  // another file of the same model
    throw;
  }
}

}  // namespace

void add_pull(Arguments& app, bool& pull) {
  app.flag("--pull", pull, "Fetch MODEL first where it is not there, as 'veery pull' does");
}

void fetch_if_missing(const std::string& model, bool pull) {
  if (pull && !is_there(model)) pull_with_bar(model);
}

void pull_verb(std::vector<std::string> arguments) {
  std::string name;
  bool json = false;
  Arguments app(
      "pull",
      "Fetches a model from Hugging Face's hub, or that of HF_ENDPOINT, into its cache, and\n"
      "prints where it is. What is there is not fetched again; what was cut off goes on.",
      "  veery pull Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
      "  veery run Qwen/Qwen3-0.6B-GGUF:Q8_0 -p Hello\n"
      "  HF_TOKEN=... veery pull google/gemma-3-270m-it");
  app.option("MODEL", name,
             "ORG/NAME, or ORG/NAME:FILE with the name of a GGUF file or its last words, as\n"
             "Q8_0; without FILE a folder of safetensors, else the Q4_K_M or only GGUF file")
      .required();
  app.flag("--json", json, "Print one JSON object: path, commit, files, bytes, fetched");
  app.read(std::move(arguments));
  const Pulled pulled = pull_with_bar(name);
  if (!json) return standard_output().line(escaped(pulled.path));
  standard_output().json({{"path", pulled.path},
                          {"commit", pulled.commit},
                          {"files", pulled.files},
                          {"bytes", pulled.bytes},
                          {"fetched", pulled.fetched}});
}

}  // namespace veery::cli
