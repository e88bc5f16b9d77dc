// Attention maps, queries, keys, hidden states and the logit lens.
#include <cmath>

#include "capi/handles.h"
#include "capi/structures.h"
#include "tasks/inspect/inspect.h"

using namespace veery;
using namespace veery::capi;

struct veery_inspection {
  Inspection found;
  size_t positions = 0;
  std::vector<std::vector<veery_token>> lenses;  ///< [layers][positions * top]
};

namespace {

constexpr int32_t kParts[] = {VEERY_INSPECT_ATTENTION, VEERY_INSPECT_QUERIES, VEERY_INSPECT_KEYS,
                              VEERY_INSPECT_HIDDEN, VEERY_INSPECT_LENS};

veery_inspect_options default_options() {
  veery_inspect_options options{};
  options.size = sizeof options;
  options.what = VEERY_INSPECT_LENS;
  options.top = InspectOptions{}.top;
  options.most_bytes = static_cast<uint64_t>(InspectOptions{}.most_bytes);
  return options;
}

std::vector<int32_t> numbers_of(const int32_t* numbers, size_t count, const char* name) {
  if (count > 0) required(numbers, name);
  return {numbers, numbers + count};
}

InspectOptions read_options(const veery_inspect_options& given) {
  InspectOptions options{.layers = numbers_of(given.layers, given.layer_count, "layers"),
                         .heads = numbers_of(given.heads, given.head_count, "heads"),
                         .top = given.top,
                         .most_bytes = static_cast<double>(given.most_bytes)};
  int32_t rest = given.what;
  for (size_t i = 0; i < std::size(kParts); ++i)
    if ((rest & kParts[i]) != 0) {
      options.what.*kInspectParts[i].member = true;
      rest &= ~kParts[i];
    }
  if (rest != 0)
    throw Error(ErrorKind::kInput, "what is {}, expected a sum of veery_inspect_part", given.what);
  return options;
}

void keep_lens(veery_inspection& inspection) {
  for (const LayerInspection& layer : inspection.found.layers) {
    std::vector<veery_token>& tokens = inspection.lenses.emplace_back();
    for (const LensToken& token : layer.lens)
      tokens.push_back({token.id, std::log(token.probability)});
  }
}

const LayerInspection& layer_at(const veery_inspection* inspection, size_t index) {
  const auto& layers = required(inspection, "inspection").found.layers;
  if (index >= layers.size())
    throw Error(ErrorKind::kInput, "layer {} is not there, found {}", index, layers.size());
  return layers[index];
}

veery_values values_of(const std::vector<float>& all, size_t first, size_t second = 0) {
  if (all.empty()) return {};
  if (second == 0) return {all.data(), {first, all.size() / first, 1}};
  return {all.data(), {first, second, all.size() / first / second}};
}

}  // namespace

veery_status veery_inspect_options_init(veery_inspect_options* options, size_t size) {
  return guarded([&] {
    give_structure(options, size, default_options(), "veery_inspect_options");
    return VEERY_OK;
  });
}

veery_status veery_inspect(veery_model* model, const int32_t* ids, size_t count,
                           const veery_inspect_options* options, veery_inspection** inspection) {
  return guarded([&] {
    required(inspection, "inspection") = nullptr;
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    loaded->require(Makes::kTexts);
    const InspectOptions wanted =
        read_options(options_or(options, default_options(), "veery_inspect_options"));
    const std::vector<int32_t> text = ids_of(ids, count);
    auto made = std::make_unique<veery_inspection>();
    made->positions = text.size();
    const Lease lease(loaded);
    loaded->between_steps([&](Model& of) { made->found = Inspector(of).run(text, wanted); });
    keep_lens(*made);
    *inspection = made.release();
    return VEERY_OK;
  });
}

void veery_inspection_free(veery_inspection* inspection) { delete inspection; }

size_t veery_inspection_count(const veery_inspection* inspection) {
  return inspection == nullptr ? 0 : inspection->found.layers.size();
}

veery_status veery_inspection_get_layer(const veery_inspection* inspection, size_t index,
                                        veery_inspected_layer* layer) {
  return guarded([&] {
    const LayerInspection& found = layer_at(inspection, index);
    required(layer, "layer") = {
        found.layer,           found.attends ? 1 : 0,  found.mixer.c_str(),   found.window,
        found.chunked ? 1 : 0, found.sinks ? 1 : 0,    found.scale,           found.heads.data(),
        found.heads.size(),    found.key_heads.data(), found.key_heads.size()};
    return VEERY_OK;
  });
}

veery_status veery_inspection_get_values(const veery_inspection* inspection, size_t index,
                                         int32_t part, veery_values* values) {
  return guarded([&] {
    veery_values& given = required(values, "values") = {};
    const LayerInspection& layer = layer_at(inspection, index);
    const size_t rows = inspection->positions;
    switch (part) {
      case VEERY_INSPECT_ATTENTION:
        given = values_of(layer.attention, layer.heads.size(), rows);
        break;
      case VEERY_INSPECT_QUERIES: given = values_of(layer.queries, layer.heads.size(), rows); break;
      case VEERY_INSPECT_KEYS: given = values_of(layer.keys, layer.key_heads.size(), rows); break;
      case VEERY_INSPECT_HIDDEN: given = values_of(layer.hidden, rows); break;
      default:
        throw Error(ErrorKind::kInput,
                    "part is {}, expected one of veery_inspect_part, but not the lens", part);
    }
    return VEERY_OK;
  });
}

veery_status veery_inspection_get_ends(const veery_inspection* inspection, veery_values* embedding,
                                       veery_values* final) {
  return guarded([&] {
    const veery_inspection& from = required(inspection, "inspection");
    if (embedding != nullptr) *embedding = values_of(from.found.embedding, from.positions);
    if (final != nullptr) *final = values_of(from.found.final, from.positions);
    return VEERY_OK;
  });
}

veery_status veery_inspection_lens(const veery_inspection* inspection, size_t index,
                                   size_t position, const veery_token** top, size_t* top_count) {
  return guarded([&] {
    required(top, "top") = nullptr;
    required(top_count, "top_count") = 0;
    layer_at(inspection, index);
    const std::vector<veery_token>& tokens = inspection->lenses[index];
    if (tokens.empty()) throw Error(ErrorKind::kInput, "the lens was not asked for");
    if (position >= inspection->positions)
      throw Error(ErrorKind::kInput, "position {} is not there, found {}", position,
                  inspection->positions);
    *top_count = tokens.size() / inspection->positions;
    *top = tokens.data() + position * *top_count;
    return VEERY_OK;
  });
}
