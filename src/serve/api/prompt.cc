#include "serve/api/prompt.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "chat/messages.h"
#include "engine/sequence_breakers.h"
#include "serve/api/api_error.h"
#include "serve/api/token_fields.h"

namespace veery::serve {
namespace {

// Returns the bytes of all strings in `json` and finds the longest of them.
size_t text_bytes(const Json& json, std::string_view& longest) {
  if (json.is_string()) {
    if (json.string().size() > longest.size()) longest = json.string();
    return json.string().size();
  }
  size_t sum = 0;
  if (json.is_array() || json.is_object())
    for (const Json& item : json) sum += text_bytes(item, longest);
  return sum;
}

}  // namespace

Json request_messages(const Json& messages) {
  try {
    return normal_messages(messages, "messages");
  } catch (const MessageError& error) {
    throw ApiError(400, error.what(), fmt::format("messages[{}]", error.index()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    throw ApiError(400, error.what(), "messages");
  }
}

Json read_tools(const Fields& fields) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr || tools->empty()) return {};
  try {
    check_tools(*tools, "tools");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    throw ApiError(400, error.what(), "tools");
  }
  return *tools;
}

RenderedChat render_chat(const Model& model, const ChatPrompt& chat) {
  if (model.chat_templates() == nullptr && !chat.templates)
    throw ApiError(400, "the model has no chat template, expected a request for /v1/completions",
                   "messages");
  try {
    return render_conversation(model, chat);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("the chat template refuses the messages: {}", error.what()),
                   "messages");
  }
}

void read_template_fields(const Fields& fields, const Model& model, ChatPrompt& prompt) {
  if (const Json* more = fields.object("chat_template_kwargs")) prompt.variables.update(*more);
  if (const Json* documents = fields.array("documents")) {
    for (const Json& document : *documents)
      if (!document.is_object() && !document.is_string())
        fields.fail("documents", "a list of texts or objects");
    prompt.variables["documents"] = *documents;
  }
  prompt.parse_special = fields.flag("parse_special");
  if (const auto choice = fields.text("chat_template")) {
    try {
      prompt.templates = other_templates(model, *choice);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      throw ApiError(400, error.what(), "chat_template");
    }
  }
  const auto continues = fields.flag("continue_final_message");
  const auto generation = fields.flag("add_generation_prompt");
  if (continues.value_or(false) && generation.value_or(false))
    throw ApiError(400, "continue_final_message and add_generation_prompt exclude each other",
                   "continue_final_message");
  const bool from_assistant =
      !prompt.messages.empty() && prompt.messages.back()["role"] == Json("assistant");
  if (continues.value_or(false) && !from_assistant)
    throw ApiError(400, "continue_final_message: the last message is not the assistant's",
                   "continue_final_message");
  prompt.continue_last = continues;
  prompt.generation_prompt = generation.value_or(true);
}

namespace {

void read_sampling(const Fields& fields, const Model& model, SamplerOptions& sampling) {
  for (const SamplingParameter& parameter : sampling_parameters())
    for (const std::string_view field : parameter.fields())
      if (fields.has(std::string(field).c_str()))
        parameter.set(sampling, fields.parameter(std::string(field).c_str(), parameter));
  const std::vector<std::string> breakers = fields.texts("dry_sequence_breakers");
  if (sampling.dry_multiplier > 0)
    sampling.dry_breakers = sequence_breakers(
        model.tokenizer(), model.config().vocab,
        fields.has("dry_sequence_breakers") ? breakers : usual_sequence_breakers());
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  std::random_device device;
  sampling.seed =
      seed && *seed != -1 ? static_cast<uint64_t>(*seed) : (uint64_t{device()} << 32) + device();
}

}  // namespace

GenerateOptions read_options(const Fields& fields, const Model& model) {
  GenerateOptions options;
  options.sampling = recommended_sampling(model.file().metadata);
  read_sampling(fields, model, options.sampling);
  // The last of these that is given counts.
  for (const char* name :
       {"num_predict", "n_predict", "max_tokens", "max_output_tokens", "max_completion_tokens"})
    if (const auto most = fields.integer(name, -2, INT64_MAX / 2))
      options.max_tokens = *most >= 0 ? *most : GenerateOptions().max_tokens;
  options.stops = fields.texts("stop");
  for (const std::string& stop : options.stops)
    if (stop.empty()) fields.fail("stop", "texts that are not empty");
  if (options.stops.size() > 64) fields.fail("stop", "64 texts at most");
  options.ignore_eos = fields.flag("ignore_eos").value_or(false);
  read_token_fields(fields, model, options);
  return options;
}

void limit_reasoning(const Fields& fields, const AnswerParser& parser, GenerateRequest& request,
                     std::optional<int64_t> otherwise) {
  for (const char* name : {"thinking_budget_tokens", "thinking_token_budget"})
    if (const auto given = fields.integer(name, -1, INT64_MAX / 2)) otherwise = given;
  if (otherwise.value_or(-1) >= 0) request.reasoning = ReasoningLimit{parser, *otherwise};
}

void for_chat(GenerateOptions& options, const RenderedChat& chat) {
  options.marks = chat.format;
  options.drop_first_space = !chat.begun;
}

std::string new_call_id(const Model& model, const std::string& prefix) {
  const ChatTemplates* templates = model.chat_templates();
  if (templates == nullptr || !templates->traits(/*tools=*/true).nine_letters)
    return random_id(prefix);
  return random_id("").substr(0, 9);
}

void constrain_to_schema(const Json& schema, ServedModel& model, const AnswerParser& parser,
                         GenerateRequest& request) {
  try {
    request.grammar = model.grammars().json_schema(schema);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, error.what(), "response_format");
  }
  request.grammar_after = parser.reasoning_end();
}

void read_format(const Json* format, ServedModel& model, const AnswerParser& parser,
                 GenerateRequest& request, const std::string& where) {
  if (format == nullptr) return;
  const Fields fields(*format, where + ".");
  const std::string type = fields.require_text("type");
  if (type == "text") return;
  static const Json kAnyObject = {{"type", "object"}};
  const Json* schema = &kAnyObject;
  if (type == "json_schema") {
    // The Responses API has these members next to the type.
    const Json* inner = fields.object("json_schema");
    const Json* found = inner != nullptr ? Fields(*inner, where + ".json_schema.").find("schema")
                                         : fields.find("schema");
    if (inner == nullptr && found == nullptr) fields.fail("json_schema", "an object with a schema");
    if (found != nullptr) schema = found;
  } else if (type == "json_object") {
    if (const Json* found = fields.find("schema")) schema = found;  // an extension of llama.cpp
  } else if (type == "regex" || type == "grammar") {
    const std::string text = fields.require_text(type == "regex" ? "pattern" : "grammar");
    if (text.size() > 20000) fields.fail("pattern", "20000 bytes at most");
    try {
      request.grammar =
          type == "regex" ? model.grammars().regex(text) : model.grammars().ebnf(text);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      throw ApiError(400, error.what(), where);
    }
    request.grammar_after = parser.reasoning_end();
    return;
  } else {
    throw ApiError(
        400,
        fmt::format("{}.type is '{}', expected text, json_object, json_schema, regex or grammar",
                    where, type.substr(0, 40)),
        where);
  }
  constrain_to_schema(*schema, model, parser, request);
}

void check_context(size_t prompt, const Scheduler& scheduler, const char* field, Family family) {
  if (prompt >= static_cast<size_t>(scheduler.context()))
    throw context_length_error(family, static_cast<int64_t>(prompt), scheduler.context(), field);
}

void check_texts(const Json& json, ServedModel& model, const char* field, Family family) {
  constexpr size_t kSurelyEncoded = size_t{1} << 20, kSample = size_t{1} << 16;
  std::string_view longest;
  const size_t bytes = text_bytes(json, longest);
  if (bytes < kSurelyEncoded) return;
  const Tokenizer& tokenizer = model.model().tokenizer();
  size_t token = 1;  // bytes of the longest token
  for (int32_t id = 0; id < tokenizer.size(); ++id)
    token = std::max(token, tokenizer.piece(id, true).size());
  const auto context = static_cast<size_t>(require_scheduler(model).context());
  if (bytes / token < context) return;
  const std::string_view sample = longest.substr(0, kSample);
  const size_t ids = tokenizer.encode(sample, {.add_special = false}).size();
  throw context_length_error(
      family, static_cast<int64_t>(std::max(bytes / sample.size() * ids, context + 1)),
      static_cast<int64_t>(context), field);
}

RenderedChat render_for_answer(ServedModel& model, const ChatPrompt& chat, const char* field,
                               Family family) {
  check_texts(chat.messages, model, field, family);
  RenderedChat rendered = render_chat(model.model(), chat);
  check_context(rendered.ids.size(), require_scheduler(model), field, family);
  return rendered;
}

Scheduler& require_scheduler(ServedModel& model) {
  if (model.scheduler() == nullptr)
    throw ApiError(400,
                   fmt::format("the model '{}' makes {}, expected one that makes texts", model.id(),
                               model.makes()),
                   "model");
  return *model.scheduler();
}

}  // namespace veery::serve
