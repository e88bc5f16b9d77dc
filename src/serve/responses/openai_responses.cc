// POST /v1/responses, and the endpoints for stored responses.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/printable.h"
#include "chat/reasoning.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/prompt.h"
#include "serve/api/tool_choice.h"
#include "serve/responses/response_input.h"
#include "serve/responses/response_tools.h"
#include "serve/responses/response_writer.h"
#include "serve/responses/truncation.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

ApiError unknown_response(const std::string& id, int status, const std::string& field) {
  return {status,
          fmt::format("there is no stored response '{}': it was never stored, deleted, or "
                      "forgotten to make room",
                      printable(id, 100)),
          field, "previous_response_not_found"};
}

// Returns all items: those before the previous response, the items of that response, the new ones.
Json read_items(const Fields& fields, ResponseStore& store) {
  Json items = Json::array();
  if (const auto id = fields.text("previous_response_id"); id && !id->empty()) {
    const auto stored = store.find(*id);
    if (!stored) throw unknown_response(*id, 400, "previous_response_id");
    items = stored->input;
    for (const Json& item : stored->response["output"]) items.push_back(item);
  }
  const Json* input = fields.find("input");
  if (input == nullptr || !(input->is_string() || input->is_array()))
    fields.fail("input", "a text or a list of items");
  if (input->is_string()) {
    items.push_back({{"type", "message"}, {"role", "user"}, {"content", *input}});
    return items;
  }
  for (size_t i = 0; i < input->size(); ++i) {
    const Fields item((*input)[i], fmt::format("input[{}].", i));
    const bool reference =
        item.text("type").value_or(item.has("role") ? "message" : "") == "item_reference";
    if (!reference) {
      items.push_back((*input)[i]);
      continue;
    }
    const std::string id = item.require_text("id");
    std::optional<Json> found = store.find_item(id);
    if (!found)
      throw ApiError(400,
                     fmt::format("input[{}]: there is no stored item '{}'", i, printable(id, 100)),
                     fmt::format("input[{}]", i), "item_not_found");
    items.push_back(std::move(*found));
  }
  return items;
}

// Adds missing ids and types to items, so that clients can list them.
Json with_ids(const Json& items) {
  Json result = Json::array();
  for (const Json& item : items) {
    Json copy = item;
    if (!copy.contains("type")) copy["type"] = "message";
    if (!copy.contains("id")) copy["id"] = random_id("item_");
    result.push_back(std::move(copy));
  }
  return result;
}

void read_variables(const Fields& fields, ChatPrompt& prompt) {
  if (const Json* given = fields.object("reasoning")) {
    if (const auto effort = Fields(*given, "reasoning.").text("effort"))
      set_reasoning_effort(prompt.variables, *effort);
  }
  if (const Json* text = fields.object("text"))
    if (const auto verbosity = Fields(*text, "text.").text("verbosity"))
      prompt.variables["verbosity"] = *verbosity;
  if (const Json* more = fields.object("chat_template_kwargs")) prompt.variables.update(*more);
}

struct ResponseRequest {
  ResponseTools tools;
  ChatPrompt prompt;
  ToolChoice choice;
  Json items;  ///< of the whole conversation
  ResponseOptions options;
  bool stream = false, store = true, truncates = false;
};

ResponseRequest read_request(const Fields& fields, ResponseStore& store) {
  ResponseRequest request;
  request.stream = fields.flag("stream").value_or(false);
  request.store = fields.flag("store").value_or(true);
  fields.object("metadata");
  const std::string truncation = fields.text("truncation").value_or("disabled");
  if (truncation != "auto" && truncation != "disabled")
    fields.fail("truncation", "auto or disabled");
  request.truncates = truncation == "auto";
  for (const std::string& part : fields.texts("include")) {
    request.options.sealed_reasoning |= part == "reasoning.encrypted_content";
    request.options.logprobs |= part == "message.output_text.logprobs";
  }
  if (const Json* tools = fields.array("tools")) request.tools.add(*tools, "tools", true);
  request.items = read_items(fields, store);
  ResponseInput input(request.tools);
  if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty())
    input.add_instructions(*instructions);
  for (size_t i = 0; i < request.items.size(); ++i)
    input.add(request.items[i], fmt::format("input[{}]", i));
  request.prompt.messages = request_messages(input.take());
  request.choice = read_tool_choice(fields);
  if (!request.choice.none) {
    request.prompt.tools = allowed_tools(request.choice, request.tools.shown());
    request.prompt.callable = allowed_tools(request.choice, request.tools.callable());
  }
  read_variables(fields, request.prompt);
  return request;
}

// Returns the response without items; it repeats fields of the request.
Json frame_of(const Fields& fields, const ServedModel& model) {
  const auto given = [&](const char* name, Json otherwise = {}) {
    const Json* found = fields.find(name);
    return found != nullptr ? *found : std::move(otherwise);
  };
  const Json* text = fields.object("text");
  Json texts = text != nullptr ? *text : Json::object();
  if (!texts.contains("format")) texts["format"] = {{"type", "text"}};
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", std::time(nullptr)},
          {"completed_at", nullptr},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given("instructions")},
          {"max_output_tokens", given("max_output_tokens")},
          {"max_tool_calls", given("max_tool_calls")},
          {"metadata", given("metadata", Json::object())},
          {"model", model.id()},
          {"output", Json::array()},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"previous_response_id", given("previous_response_id")},
          {"prompt_cache_key", given("prompt_cache_key")},
          {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"safety_identifier", given("safety_identifier")},
          {"service_tier", "default"},
          {"store", given("store", true)},
          {"temperature", given("temperature")},
          {"text", std::move(texts)},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", Json::array())},
          {"top_logprobs", given("top_logprobs", 0)},
          {"top_p", given("top_p")},
          {"truncation", given("truncation", "disabled")},
          {"usage", nullptr},
          {"user", given("user")}};
}

GenerateRequest read_generation(const Fields& fields, ResponseRequest& asked, ServedModel& model,
                                RenderedChat& chat, Reply& reply) {
  GenerateRequest request{std::move(chat.ids), read_options(fields, model.model())};
  for_chat(request.options, chat);
  const auto top = static_cast<int32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
  asked.options.logprobs |= top > 0;
  if (asked.options.logprobs) request.logprobs = top;
  if (const Json* text = fields.object("text"))
    read_format(Fields(*text, "text.").object("format"), model, chat.parser, request,
                "text.format");
  limit_reasoning(fields, chat.parser, request);
  constrain_calls(asked.choice, asked.prompt, chat, model, request, reply);
  return request;
}

}  // namespace

void responses(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, response_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  require_scheduler(model);
  ResponseRequest asked = read_request(fields, context.responses);
  RenderedChat chat = asked.truncates ? render_truncated(model, asked.prompt, "input")
                                      : render_for_answer(model, asked.prompt, "input");
  const GenerateRequest request = read_generation(fields, asked, model, chat, reply);
  const auto store = [&](const Json& response) {
    if (asked.store) context.responses.put({response, with_ids(asked.items)});
  };
  ResponseWriter writer(frame_of(fields, model), asked.tools, model.model().tokenizer(),
                        asked.options, store);
  send_answers({.model = model,
                .generate = request,
                .stream = asked.stream,
                .parser = std::move(chat.parser),
                .choice = asked.choice},
               writer, reply);
}

namespace {

// Returns the ID of "/v1/responses/ID" and "/v1/responses/ID/input_items"; `rest` is the path after
// it.
std::string id_of(const HttpRequest& http, std::string& rest) {
  constexpr std::string_view kList = "/responses/";
  const std::string path = http.path.substr(http.path.find(kList) + kList.size());
  const size_t end = std::min(path.find('/'), path.size());
  rest = path.substr(end);
  return path.substr(0, end);
}

std::string query_of(const HttpRequest& http, const char* name, const char* otherwise) {
  const auto found = http.query.find(name);
  return found == http.query.end() ? otherwise : found->second;
}

// Returns a page of items; the newest first by default, as OpenAI does.
Json page_of(const Json& items, const HttpRequest& http) {
  const std::string order = query_of(http, "order", "desc"), after = query_of(http, "after", "");
  if (order != "asc" && order != "desc")
    throw ApiError(400, fmt::format("order is '{}', expected asc or desc", printable(order, 40)),
                   "order");
  const std::string limit_text = query_of(http, "limit", "20");
  const int64_t limit = std::strtol(limit_text.c_str(), nullptr, 10);
  if (limit < 1 || limit > 100)
    throw ApiError(400, fmt::format("limit is '{}', expected 1 to 100", printable(limit_text, 40)),
                   "limit");
  std::vector<const Json*> all;
  for (const Json& item : items) all.push_back(&item);
  if (order == "desc") std::ranges::reverse(all);
  size_t begin = 0;
  if (!after.empty()) {
    const auto found =
        std::ranges::find_if(all, [&](const Json* x) { return (*x)["id"] == after; });
    begin = static_cast<size_t>(found - all.begin()) + (found == all.end() ? 0 : 1);
  }
  Json data = Json::array();
  const size_t end = std::min(all.size(), begin + static_cast<size_t>(limit));
  for (size_t i = begin; i < end; ++i) data.push_back(*all[i]);
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", end < all.size()}};
}

}  // namespace

void stored_response(Context& context, const HttpRequest& http, Reply& reply) {
  std::string rest;
  const std::string id = id_of(http, rest);
  const auto stored = context.responses.find(id);
  if (!stored) throw unknown_response(id, 404, "response_id");
  if (query_of(http, "stream", "false") == "true")
    throw ApiError(400, "stream is true, expected false for a stored response", "stream");
  if (rest.empty()) return reply.send(200, kJson, dump_json(stored->response));
  if (rest != "/input_items")
    throw ApiError(404, fmt::format("there is no {}", printable(http.path, 200)));
  reply.send(200, kJson, dump_json(page_of(stored->input, http)));
}

void delete_response(Context& context, const HttpRequest& http, Reply& reply) {
  std::string rest;
  const std::string id = id_of(http, rest);
  if (!rest.empty() || !context.responses.erase(id))
    throw unknown_response(id + rest, 404, "response_id");
  reply.send(200, kJson, dump_json({{"id", id}, {"object", "response"}, {"deleted", true}}));
}

}  // namespace veery::serve
