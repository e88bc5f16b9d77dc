// Ollama's endpoints for models: /api/version, /api/tags, /api/ps, /api/show.
#include "serve/peers/ollama.h"

#include <fmt/format.h>

#include <ctime>

#include "base/printable.h"
#include "chat/infill.h"
#include "serve/api/api_error.h"
#include "serve/models/keep_alive.h"
#include "serve/rules/groups.h"

namespace veery::serve {

std::string ollama_time(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::optional<KeepAlive> ollama_keep_alive(const Fields& fields) {
  const Json* given = fields.find("keep_alive");
  if (given == nullptr || given->is_null()) return std::nullopt;
  std::optional<KeepAlive> found;
  if (given->is_number()) found = given->get<double>();
  if (given->is_string()) found = parse_duration(given->get<std::string>());
  if (!found)
    throw ApiError(400, "keep_alive is not a duration, expected one such as \"5m\" or 300",
                   "keep_alive");
  return found;
}

std::string ollama_model(Context& context, const Fields& fields) {
  std::string name = fields.text("model").value_or(fields.text("name").value_or(""));
  if (name.empty()) fields.fail("model", "a text");
  if (context.models.has(name)) return name;
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest) && context.models.has(name.substr(0, name.size() - kLatest.size())))
    return name.substr(0, name.size() - kLatest.size());
  throw ApiError(404, fmt::format("model '{}' not found", printable(name, 200)), "model",
                 "model_not_found");
}

namespace {

Json details_of(const ModelCard& model) {
  std::string type;
  int most = 0;
  for (const auto& [name, count] : model.summary.types)
    if (name != "f32" && count > most) most = count, type = name;
  return {{"parent_model", ""},
          {"format", model.gguf ? "gguf" : "safetensors"},
          {"family", model.config.architecture},
          {"families", Json::array({model.config.architecture})},
          {"parameter_size",
           fmt::format("{:.1f}M", static_cast<double>(model.summary.parameters) / 1e6)},
          {"quantization_level", type.empty() ? "f32" : type}};
}

Json entry_of(const ModelCard& model) {
  return {{"name", model.id},
          {"model", model.id},
          {"modified_at", ollama_time(model.created)},
          {"size", model.summary.weight_bytes},
          {"digest", ""},
          {"details", details_of(model)}};
}

// "insert" is known only for loaded models, as it depends on the vocabulary.
Json capabilities_of(const Models::View& view, const std::string& source) {
  const std::string_view makes = view.card->makes;
  if (makes == "embeddings") return Json::array({"embedding"});
  if (makes != "texts") return Json::array();
  Json list = Json::array({"completion"});
  if (!source.empty()) list.push_back("tools");
  if (AnswerFormat::of_template(source).reasons()) list.push_back("thinking");
  if (view.model && find_infill_tokens(view.model->model())) list.push_back("insert");
  return list;
}

}  // namespace

void ollama_version(Context& context, const HttpRequest&, Reply& reply) {
  reply.send(200, kJson, dump_json({{"version", context.version}}));
}

void ollama_tags(Context& context, const HttpRequest&, Reply& reply) {
  Json list = Json::array();
  for (const Models::View& view : context.models.all()) list.push_back(entry_of(*view.card));
  reply.send(200, kJson, dump_json({{"models", list}}));
}

void ollama_running(Context& context, const HttpRequest&, Reply& reply) {
  Json list = Json::array();
  for (const Models::View& view : context.models.all()) {
    if (!view.model) continue;
    Json entry = entry_of(*view.card);
    entry["size"] = view.bytes;
    entry["expires_at"] =
        view.expires < 0 ? "9999-12-31T23:59:59Z"  // never unloaded
                         : ollama_time(std::time(nullptr) + static_cast<int64_t>(view.expires));
    entry["size_vram"] = 0;
    entry["context_length"] = view.card->context;
    list.push_back(std::move(entry));
  }
  reply.send(200, kJson, dump_json({{"models", list}}));
}

// Throws LoadFailure if the file of the model can no longer be read.
std::string template_of(const ModelCard& card) {
  try {
    return chat_template_source(card.path);
  } catch (const Error& error) {
    throw LoadFailure(error.kind(), false, "the model '{}' cannot be read: {}", card.id,
                      error.what());
  }
}

void ollama_show(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_show_rules());
  const Models::View view = context.models.view(ollama_model(context, Fields(body)));
  const ModelCard& card = *view.card;
  const TransformerConfig& c = card.config;
  const std::string source = template_of(card);
  reply.send(200, kJson,
             dump_json({{"modelfile", ""},
                        {"parameters", ""},
                        {"template", source},
                        {"details", details_of(card)},
                        {"model_info",
                         {{"general.architecture", c.architecture},
                          {"general.parameter_count", card.summary.parameters},
                          {c.architecture + ".context_length", c.context},
                          {c.architecture + ".embedding_length", c.dim},
                          {c.architecture + ".block_count", c.layers},
                          {c.architecture + ".vocab_size", c.vocab}}},
                        {"capabilities", capabilities_of(view, source)},
                        {"modified_at", ollama_time(card.created)}}));
}

}  // namespace veery::serve
