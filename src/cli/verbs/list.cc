// list.cc: `veery list`: prints the models that have names.
#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "file/hub/model_names.h"

namespace veery::cli {
namespace {

constexpr size_t kNarrowestName = 24;  // columns

std::string_view kind_of(const NamedModel& model) { return model.folder ? "safetensors" : "GGUF"; }

Json to_json(const std::vector<NamedModel>& models, const ModelPlaces& places) {
  Json list = Json::array();
  for (const NamedModel& model : models)
    list.push_back({{"name", model.name},
                    {"bytes", model.bytes},
                    {"kind", kind_of(model)},
                    {"path", model.path}});
  return {{"models", std::move(list)}, {"folders", {places.own, places.hub}}};
}

void print(const std::vector<NamedModel>& models) {
  size_t width = kNarrowestName;
  for (const NamedModel& model : models) width = std::max(width, escaped(model.name).size());
  for (const NamedModel& model : models)
    standard_output().line(fmt::format("{:<{}}  {:>9}  {:<11}  {}", escaped(model.name), width,
                                       human_bytes(static_cast<double>(model.bytes)),
                                       kind_of(model), escaped(model.path)));
}

}  // namespace

void list_verb(std::vector<std::string> arguments) {
  bool json = false, only_names = false;
  Arguments app("list",
                "Lists the models on this machine that have a name: known models and those in "
                "Hugging Face's cache. Each name can be used as MODEL.",
                "  veery list");
  const Option as_json = app.flag("--json", json, "Print a JSON object: models, folders");
  app.flag("--names", only_names,
           "Print only names, one per line, also of known models not yet downloaded")
      .excludes(as_json);
  app.read(std::move(arguments));
  const ModelPlaces places = model_places();
  const std::vector<NamedModel> models = named_models(places);
  if (only_names) {
    std::set<std::string> names;
    for (std::string& name : known_names()) names.insert(std::move(name));
    for (const NamedModel& model : models) names.insert(model.name);
    for (const std::string& name : names) standard_output().line(escaped(name));
    return;
  }
  if (json) return standard_output().json(to_json(models, places));
  print(models);
  if (models.empty())
    write_error(
        fmt::format("veery: found no model in {} or {}; 'veery pull ORG/NAME' or "
                    "scripts/models.sh downloads one\n",
                    printable(places.own, 200), printable(places.hub, 200)));
}

}  // namespace veery::cli
