// Endpoints for models, tokens, templates and the state of the server.
#include <fmt/format.h>

#include <ctime>

#include "base/clock.h"
#include "chat/chat.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/prompt.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

// Returns the model of a query "?model=", else the first one.
Models::Lease requested_model(Context& context, const HttpRequest& http) {
  const auto found = http.query.find("model");
  return context.models.find(found == http.query.end() ? "" : found->second);
}

// Returns a model in the format of Anthropic.
Json anthropic_entry(const ModelCard& card) {
  const std::time_t time = card.created;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {{"type", "model"},
          {"id", card.id},
          {"display_name", card.id},
          {"created_at", text},
          {"max_input_tokens", card.context},
          {"max_tokens", card.context}};
}

// Returns all models as one page.
Json anthropic_list(const std::vector<Models::View>& views) {
  Json data = Json::array();
  for (const Models::View& view : views) data.push_back(anthropic_entry(*view.card));
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return {{"data", std::move(data)}, {"first_id", first}, {"last_id", last}, {"has_more", false}};
}

}  // namespace

void list_models(Context& context, const HttpRequest& http, Reply& reply) {
  const bool anthropic = !http.header("anthropic-version").empty();
  const auto entry = [](const Models::View& view) {
    const ModelCard& card = *view.card;
    return Json{{"id", card.id},
                {"object", "model"},
                {"created", card.created},
                {"owned_by", "veery"},
                {"meta",
                 {{"context", card.context},
                  {"trained_context", card.config.context},
                  {"vocabulary", card.config.vocab},
                  {"makes", card.makes},
                  {"loaded", view.model != nullptr},
                  {"bytes", view.bytes}}}};
  };
  constexpr std::string_view kList = "/models/";
  if (const size_t at = http.path.find(kList); at != std::string::npos) {
    const std::string id = http.path.substr(at + kList.size());
    for (const Models::View& view : context.models.all())
      if (view.card->id == id)
        return reply.send(200, kJson,
                          dump_json(anthropic ? anthropic_entry(*view.card) : entry(view)));
    throw ApiError(404, fmt::format("the model '{}' does not exist", id.substr(0, 200)), "model",
                   "model_not_found");
  }
  if (anthropic) return reply.send(200, kJson, dump_json(anthropic_list(context.models.all())));
  Json data = Json::array();
  for (const Models::View& view : context.models.all()) data.push_back(entry(view));
  reply.send(200, kJson, dump_json({{"object", "list"}, {"data", data}}));
}

void tokenize(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, tokenize_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const Model& model = lease->model();
  const std::string text =
      fields.has("content") ? fields.require_text("content") : fields.require_text("prompt");
  const bool special = fields.flag("add_special")
                           .value_or(fields.flag("add_special_tokens")
                                         .value_or(false));  // llama.cpp's and vLLM's name of it
  const std::vector<int32_t> ids =
      special ? encode_prompt(model.tokenizer(), text)
              : model.tokenizer().encode(
                    text, {.add_special = false,
                           .parse_special = fields.flag("parse_special").value_or(true)});
  Json tokens = Json::array();
  const bool pieces = fields.flag("with_pieces").value_or(false);
  for (const int32_t id : ids) {
    if (pieces)
      tokens.push_back({{"id", id}, {"piece", model.tokenizer().piece(id, true)}});
    else
      tokens.push_back(id);
  }
  reply.send(
      200, kJson,
      dump_json(
          {{"tokens", tokens}, {"count", ids.size()}, {"max_model_len", model.options().context}}));
}

void detokenize(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, detokenize_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const Model& model = lease->model();
  std::vector<int32_t> ids;
  for (const Json& item : fields.require_array("tokens")) {
    if (!item.is_integer_in(0, model.config().vocab - 1))
      fields.fail("tokens", fmt::format("ids from 0 to {}", model.config().vocab - 1));
    ids.push_back(item.get<int32_t>());
  }
  const std::string text = model.tokenizer().decode(ids, true);
  reply.send(200, kJson, dump_json({{"content", text}, {"prompt", text}}));
}

// For clients of vLLM such as lm-eval.
void tokenizer_info(Context& context, const HttpRequest& http, Reply& reply) {
  const Models::Lease lease = requested_model(context, http);
  const Model& model = lease->model();
  Json info = special_token_variables(model.tokenizer());
  info["tokenizer_class"] = "PreTrainedTokenizerFast";
  info["vocab_size"] = model.tokenizer().size();
  info["model_max_length"] = model.config().context;
  info["add_bos_token"] = model.tokenizer().special().add_bos;
  info["add_eos_token"] = model.tokenizer().special().add_eos;
  const std::string source =
      model.chat_templates() != nullptr ? model.chat_templates()->source(/*tools=*/false) : "";
  info["chat_template"] = source.empty() ? Json() : Json(source);
  reply.send(200, kJson, dump_json(info));
}

void apply_template(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, template_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const Model& model = lease->model();
  ChatPrompt prompt{.messages = request_messages(fields.require_array("messages"))};
  prompt.tools = read_tools(fields);
  read_template_fields(fields, model, prompt);
  reply.send(200, kJson, dump_json({{"prompt", render_chat(model, prompt).text}}));
}

void health(Context& context, const HttpRequest&, Reply& reply) {
  if (context.ready) return reply.send(200, kJson, R"({"status":"ok"})");
  throw ApiError(503, "the models are loading");
}

void slots(Context& context, const HttpRequest& http, Reply& reply) {
  Json list = Json::array();
  const Models::Lease lease = requested_model(context, http);
  ServedModel& model = *lease;
  if (Scheduler* scheduler = model.scheduler()) {
    const int64_t running = scheduler->counts().running;
    for (int32_t i = 0; i < scheduler->slots(); ++i)
      list.push_back({{"id", i}, {"n_ctx", scheduler->context()}, {"is_processing", i < running}});
  }
  reply.send(200, kJson, dump_json(list));
}

void props(Context& context, const HttpRequest& http, Reply& reply) {
  const Models::Lease lease = requested_model(context, http);
  ServedModel& model = *lease;
  const Scheduler* scheduler = model.scheduler();
  reply.send(
      200, kJson,
      dump_json({{"model_path", model.id()},  // a field of llama.cpp; clients get no paths
                 {"model", model.id()},
                 {"total_slots", scheduler != nullptr ? scheduler->slots() : 0},
                 {"default_generation_settings", {{"n_ctx", model.model().options().context}}},
                 {"chat_template", model.model().chat_templates() != nullptr
                                       ? model.model().chat_templates()->source(/*tools=*/false)
                                       : ""},
                 {"build_info", "veery " + context.version},
                 {"relaxed", model.model().backend().relaxed()},
                 {"uptime_seconds", seconds_now() - context.started}}));
}

}  // namespace veery::serve
