// POST /v1/inspect: attention, keys, hidden states and predictions of a model for a text.
#include "tasks/inspect/inspect.h"

#include <fmt/format.h>

#include "chat/chat.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/fields.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr double kMostNumbers = 1 << 21;  // of a reply
constexpr double kMostBytes = 1e9;        // of values during the run
constexpr size_t kMostTokens = 4096;      // running answers wait for the run

std::vector<int32_t> read_ids(const Fields& fields, const char* name, int64_t most) {
  std::vector<int32_t> ids;
  if (const Json* list = fields.array(name))
    for (const Json& item : *list) {
      if (!item.is_integer_in(0, most))
        fields.fail(name, fmt::format("numbers from 0 to {}", most));
      ids.push_back(item.get<int32_t>());
    }
  return ids;
}

std::vector<int32_t> read_text(const Fields& fields, const Model& model) {
  if (fields.has("tokens") == fields.has("input")) fields.fail("input", "a text, or tokens");
  std::vector<int32_t> ids = fields.has("tokens")
                                 ? read_ids(fields, "tokens", model.config().vocab - 1)
                                 : encode_prompt(model.tokenizer(), fields.require_text("input"));
  if (ids.size() > kMostTokens)
    throw ApiError(
        400, fmt::format("the text has {} tokens, expected at most {}", ids.size(), kMostTokens));
  return ids;
}

/// Returns numbers as nested lists of a shape.
Json nested(std::span<const float> values, std::initializer_list<size_t> shape) {
  Json list = Json::array();
  if (shape.size() == 1) {
    for (const float value : values) list.push_back(value);
    return list;
  }
  const size_t count = *shape.begin(), size = values.size() / count;
  for (size_t i = 0; i < count; ++i) {
    const auto part = values.subspan(i * size, size);
    list.push_back(shape.size() == 3 ? nested(part, {shape.begin()[1], shape.begin()[2]})
                                     : nested(part, {shape.begin()[1]}));
  }
  return list;
}

Json token_json(const Tokenizer& tokenizer, int32_t id) {
  return {{"id", id}, {"text", id < tokenizer.size() ? tokenizer.piece(id, true) : std::string()}};
}

Json lens_json(const LayerInspection& layer, size_t rows, const Tokenizer& tokenizer) {
  Json positions = Json::array();
  const size_t top = layer.lens.size() / rows;
  for (size_t p = 0; p < rows; ++p) {
    Json row = Json::array();
    for (size_t i = p * top; i < (p + 1) * top; ++i) {
      Json token = token_json(tokenizer, layer.lens[i].id);
      token["probability"] = layer.lens[i].probability;
      row.push_back(std::move(token));
    }
    positions.push_back(std::move(row));
  }
  return positions;
}

Json layer_json(const LayerInspection& layer, size_t rows, const Tokenizer& tokenizer) {
  Json json = {{"layer", layer.layer}, {"mixer", layer.mixer}, {"attends", layer.attends}};
  const auto size = static_cast<size_t>(layer.head_size);
  if (layer.attends) {
    json["heads"] = layer.heads;
    json["key_heads"] = layer.key_heads;
    json["scale"] = layer.scale;
    json["window"] = layer.window;
    json["chunked"] = layer.chunked;
    json["sinks"] = layer.sinks;
  }
  if (!layer.attention.empty())
    json["attention"] = nested(layer.attention, {layer.heads.size(), rows, rows});
  if (!layer.queries.empty())
    json["queries"] = nested(layer.queries, {layer.heads.size(), rows, size});
  if (!layer.keys.empty()) json["keys"] = nested(layer.keys, {layer.key_heads.size(), rows, size});
  if (!layer.hidden.empty())
    json["hidden"] = nested(layer.hidden, {rows, layer.hidden.size() / rows});
  if (!layer.lens.empty()) json["lens"] = lens_json(layer, rows, tokenizer);
  return json;
}

}  // namespace

void inspect(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, inspect_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& served = *lease;
  const Model& model = served.model();
  InspectOptions options{.most_bytes = kMostBytes};
  const std::vector<std::string> what = fields.texts("what");
  options.what = what.empty() ? InspectWhat{.lens = true} : parse_inspect_what(what);
  options.layers = read_ids(fields, "layers", model.config().layers - 1);
  options.heads = read_ids(fields, "heads", std::max(model.config().attention.heads - 1, 0));
  options.top = static_cast<int32_t>(fields.integer("top", 1, 1000).value_or(options.top));
  const std::vector<int32_t> ids = read_text(fields, model);
  const Inspection found = served.inspect(ids, options, kMostNumbers);
  const size_t rows = ids.size();
  Json tokens = Json::array(), layers = Json::array();
  for (const int32_t id : ids) tokens.push_back(token_json(model.tokenizer(), id));
  for (const LayerInspection& layer : found.layers)
    layers.push_back(layer_json(layer, rows, model.tokenizer()));
  Json result = {{"object", "inspection"},
                 {"model", served.id()},
                 {"tokens", std::move(tokens)},
                 {"layers", std::move(layers)}};
  if (!found.embedding.empty()) {
    result["embedding"] = nested(found.embedding, {rows, found.embedding.size() / rows});
    result["final_hidden"] = nested(found.final, {rows, found.final.size() / rows});
  }
  reply.send(200, kJson, dump_json(result));
}

}  // namespace veery::serve
