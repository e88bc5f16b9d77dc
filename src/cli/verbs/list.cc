// list.cc: `veery list`: the models that have names, and where they are.
#include <algorithm>

#include "cli/parts/cli.h"
#include "cli/parts/output.h"
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
  bool json = false;
  Arguments app(
      "list",
      "Lists the models that have names: those of scripts/models.sh and of Hugging Face's\n"
      "cache. Each name may stand for MODEL.",
      "  veery list");
  app.flag("--json", json, "Print one JSON object");
  app.read(std::move(arguments));
  const ModelPlaces places = model_places();
  const std::vector<NamedModel> models = named_models(places);
  if (json) return standard_output().json(to_json(models, places));
  print(models);
  if (models.empty())
    write_error(
        fmt::format("veery: no model is in {} or {}: 'scripts/models.sh' and 'veery pull "
                    "ORG/NAME' fetch some\n",
                    printable(places.own, 200), printable(places.hub, 200)));
}

}  // namespace veery::cli
