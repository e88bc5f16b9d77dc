#include "serve/api/prompt.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "engine/chat.h"
#include "engine/sequence_breakers.h"
#include "serve/api/api_error.h"

namespace veery::serve {
namespace {

[[noreturn]] void fail_message(size_t i, const std::string& what) {
  throw ApiError(400, fmt::format("messages[{}]: {}", i, what), fmt::format("messages[{}]", i));
}

// A text, or the texts of a list of parts.
std::string content_text(const Json& content, size_t message) {
  if (content.is_string()) return content.string();
  if (content.is_object()) return content_text(Json::array({content}), message);
  if (!content.is_array())
    fail_message(message, fmt::format("content is a JSON {}, expected a text or a list of parts",
                                      content.type_name()));
  std::string text;
  for (const Json& part : content) {
    if (part.is_string()) {
      text += part.string();
      continue;
    }
    const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                 ? part["type"].string()
                                 : "";
    const bool known =
        type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
    if (!known)
      fail_message(
          message,
          fmt::format("a part of type '{}' cannot be read by this model, expected text", type));
    const Json* value = part.member(type == "refusal" ? "refusal" : "text");
    if (value == nullptr || !value->is_string())
      fail_message(message, "a part of type text has no text");
    text += value->string();
  }
  return text;
}

// Templates take the arguments of calls as objects.
Json normal_calls(const Json& calls, size_t message) {
  if (!calls.is_array()) fail_message(message, "tool_calls is no list");
  Json result = Json::array();
  for (const Json& call : calls) {
    const Json* function = call.is_object() ? call.member("function") : nullptr;
    if (function == nullptr || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      fail_message(message, "a tool call has no function with a name");
    Json copy = call;
    copy["type"] = "function";
    Json arguments = function->value("arguments", Json(""));
    if (arguments.is_string()) {
      std::optional<Json> parsed = maybe_json(arguments.string());
      if (parsed && parsed->is_object())
        arguments = std::move(*parsed);
      else if (arguments.string().empty())
        arguments = Json::object();
    }
    copy["function"]["arguments"] = std::move(arguments);
    result.push_back(std::move(copy));
  }
  return result;
}

bool template_names(const Model& model, std::string_view role) {
  return chat_template_source(model.path()).find(role) != std::string::npos;
}

}  // namespace

Json normal_messages(const Json& messages, const Model& model) {
  if (messages.empty()) throw ApiError(400, "messages is empty, expected one or more", "messages");
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object())
      fail_message(i, fmt::format("is a JSON {}, expected an object", message.type_name()));
    const Json* role = message.member("role");
    if (role == nullptr || !role->is_string()) fail_message(i, "has no role");
    std::string name = role->string();
    if (name == "function") name = "tool";
    if (name != "system" && name != "developer" && name != "user" && name != "assistant" &&
        name != "tool")
      fail_message(i, fmt::format("its role is '{}', expected system, developer, user, assistant "
                                  "or tool",
                                  name.substr(0, 40)));
    if (name == "developer" && !template_names(model, "developer")) name = "system";
    Json copy = message;
    copy["role"] = name;
    const Json* content = message.member("content");
    const Json* calls = message.member("tool_calls");
    const bool called = calls != nullptr && !calls->is_null();
    if (content != nullptr && !content->is_null())
      copy["content"] = content_text(*content, i);
    else if (name == "assistant")
      copy["content"] = "";
    else
      fail_message(i, "has no content");
    if (called) copy["tool_calls"] = normal_calls(*calls, i);
    result.push_back(std::move(copy));
  }
  return result;
}

RenderedChat render_chat(const Model& model, const ChatPrompt& chat) {
  if (model.chat_template() == nullptr)
    throw ApiError(400, "this model has no chat template: use completions", "messages");
  Json messages = chat.messages;
  // A last message of the assistant is the beginning of its answer.
  std::string begun;
  if (messages.size() > 1 && messages.back()["role"] == "assistant" &&
      !messages.back().contains("tool_calls")) {
    begun = messages.back()["content"].string();
    messages.erase(messages.size() - 1);
  }
  Json more = chat.variables;
  more["tools"] = chat.tools;
  std::string text;
  try {
    text = model.chat_template()->render(
        template_variables(special_token_variables(model.tokenizer()), messages, true, more));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("the chat template refuses the messages: {}", error.what()),
                   "messages");
  }
  text += begun;
  return {encode_prompt(model.tokenizer(), text),
          AnswerParser(model.answer_format(), {.tools = chat.tools, .prompt = text})};
}

namespace {

void read_sampling(const Fields& fields, const Model& model, SamplerOptions& sampling) {
  constexpr double kMost = 1e9;
  const auto number = [&](const char* name, double low, double high, float& value) {
    if (const auto given = fields.number(name, low, high)) value = static_cast<float>(*given);
  };
  number("temperature", 0, 100, sampling.temperature);
  number("top_p", 0, 1, sampling.top_p);
  number("min_p", 0, 1, sampling.min_p);
  number("repeat_penalty", 0, kMost, sampling.repeat_penalty);
  number("repetition_penalty", 0, kMost, sampling.repeat_penalty);
  number("presence_penalty", -2, 2, sampling.presence_penalty);
  number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  number("typical_p", 0, 1, sampling.typical_p);
  number("top_n_sigma", -1, kMost, sampling.top_n_sigma);
  number("xtc_probability", 0, 1, sampling.xtc_probability);
  number("xtc_threshold", 0, 1, sampling.xtc_threshold);
  number("dynatemp_range", 0, 100, sampling.dynatemp_range);
  number("dynatemp_exponent", 0, 100, sampling.dynatemp_exponent);
  number("dry_multiplier", 0, 100, sampling.dry_multiplier);
  number("dry_base", 1, 100, sampling.dry_base);
  number("mirostat_tau", 0, 100, sampling.mirostat_tau);
  number("mirostat_eta", 0, 1, sampling.mirostat_eta);
  const auto count = [&](const char* name, int64_t low, int64_t high, int32_t& value) {
    if (const auto given = fields.integer(name, low, high)) value = static_cast<int32_t>(*given);
  };
  count("top_k", -1, INT32_MAX, sampling.top_k);
  count("repeat_last_n", -1, INT32_MAX, sampling.repeat_last_n);
  count("dry_allowed_length", 0, INT32_MAX, sampling.dry_allowed_length);
  count("dry_penalty_last_n", -1, INT32_MAX, sampling.dry_last_n);
  count("mirostat", 0, 2, sampling.mirostat);
  if (sampling.mirostat == 1) fields.fail("mirostat", "0 or 2");
  if (sampling.dry_multiplier > 0)
    sampling.dry_breakers = sequence_breakers(model.tokenizer(), model.config().vocab,
                                              fields.has("dry_sequence_breakers")
                                                  ? fields.texts("dry_sequence_breakers")
                                                  : usual_sequence_breakers());
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  std::random_device device;
  sampling.seed =
      seed && *seed != -1 ? static_cast<uint64_t>(*seed) : (uint64_t{device()} << 32) + device();
}

void read_bias(const Fields& fields, const Model& model, SamplerOptions& sampling) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    char* end = nullptr;
    const long id = std::strtol(key.c_str(), &end, 10);
    if (key.empty() || *end != 0 || id < 0 || id >= model.config().vocab || !value.is_number() ||
        !(std::abs(value.number()) <= 1e6))
      fields.fail("logit_bias",
                  fmt::format("numbers by token ids from 0 to {}", model.config().vocab - 1));
    sampling.bias.push_back({static_cast<int32_t>(id), static_cast<float>(value.number())});
  }
}

}  // namespace

GenerateOptions read_options(const Fields& fields, const Model& model) {
  GenerateOptions options;
  options.sampling = recommended_sampling(model.file().metadata);
  read_sampling(fields, model, options.sampling);
  for (const char* name :
       {"max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict", "num_predict"})
    if (const auto most = fields.integer(name, -2, INT64_MAX / 2)) {
      if (*most >= 0) options.max_tokens = *most;
      break;
    }
  options.stops = fields.texts("stop");
  for (const std::string& stop : options.stops)
    if (stop.empty()) fields.fail("stop", "texts that are not empty");
  if (options.stops.size() > 64) fields.fail("stop", "64 texts at most");
  options.ignore_eos = fields.flag("ignore_eos").value_or(false);
  read_bias(fields, model, options.sampling);
  return options;
}

void for_chat(GenerateOptions& options, const Model& model) {
  options.marks = model.answer_format();
  options.drop_first_space = true;
}

void hold_to_schema(const Json& schema, ServedModel& model, const AnswerParser& parser,
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
                 GenerateRequest& request) {
  if (format == nullptr) return;
  const Fields fields(*format, "response_format.");
  const std::string type = fields.require_text("type");
  if (type == "text") return;
  static const Json kAnyObject = {{"type", "object"}};
  const Json* schema = &kAnyObject;
  if (type == "json_schema") {
    // Responses have the members beside the type.
    const Json* inner = fields.object("json_schema");
    const Json* found = inner != nullptr
                            ? Fields(*inner, "response_format.json_schema.").find("schema")
                            : fields.find("schema");
    if (inner == nullptr && found == nullptr) fields.fail("json_schema", "an object with a schema");
    if (found != nullptr) schema = found;
  } else if (type == "json_object") {
    if (const Json* found = fields.find("schema")) schema = found;  // as llama.cpp has it
  } else if (type == "regex" || type == "grammar") {
    const std::string text = fields.require_text(type == "regex" ? "pattern" : "grammar");
    if (text.size() > 20000) fields.fail("pattern", "20000 bytes at most");
    try {
      request.grammar =
          type == "regex" ? model.grammars().regex(text) : model.grammars().ebnf(text);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      throw ApiError(400, error.what(), "response_format");
    }
    request.grammar_after = parser.reasoning_end();
    return;
  } else {
    throw ApiError(400,
                   fmt::format("response_format.type is '{}', expected text, json_object, "
                               "json_schema, regex or grammar",
                               type.substr(0, 40)),
                   "response_format");
  }
  hold_to_schema(*schema, model, parser, request);
}

void check_context(size_t prompt, const Scheduler& scheduler) {
  if (prompt >= static_cast<size_t>(scheduler.context()))
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, the context holds {} with the answer",
                               prompt, scheduler.context()),
                   "messages", "context_length_exceeded");
}

Scheduler& require_scheduler(ServedModel& model) {
  if (model.scheduler() == nullptr)
    throw ApiError(400, fmt::format("the model '{}' makes {}, no texts", model.id(), model.makes()),
                   "model");
  return *model.scheduler();
}

std::string random_id(const std::string& prefix) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace veery::serve
