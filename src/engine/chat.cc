#include "engine/chat.h"

#include <utility>

#include "base/error.h"
#include "text/system_messages.h"

namespace veery {

Json special_token_variables(const Tokenizer& tokenizer) {
  const Tokenizer::Special& special = tokenizer.special();
  Json variables = Json::object();
  const auto add = [&](const char* name, int32_t id) {
    if (id >= 0) variables[name] = tokenizer.token(id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos);
  add("unk_token", special.unknown);
  add("pad_token", special.pad);
  return variables;
}

Json template_variables(const Json& special_tokens, const Json& messages,
                        bool add_generation_prompt, const Json& more) {
  Json variables = {{"messages", template_messages(messages)},
                    {"tools", nullptr},
                    {"documents", nullptr},
                    {"add_generation_prompt", add_generation_prompt}};
  for (const Json* extra : {&special_tokens, &more})
    if (extra->is_object())
      for (const auto& [name, value] : extra->items()) variables[name] = value;
  return variables;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   LostBytes* lost) {
  const Tokenizer::Special& special = tokenizer.special();
  std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = false, .lost = lost});
  if (special.add_bos && special.bos >= 0 && (ids.empty() || ids.front() != special.bos))
    ids.insert(ids.begin(), special.bos);
  return ids;
}

void check_messages(const Json& messages, std::string_view where) {
  if (!messages.is_array())
    throw Error(ErrorKind::kInput,
                "{}: found a JSON {}, expected an array of messages such as "
                R"([{{"role": "user", "content": "Hello"}}])",
                where, messages.type_name());
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object())
      throw Error(ErrorKind::kInput, "{}: message {} is a JSON {}, expected an object with a role",
                  where, i, message.type_name());
    const auto role = message.find("role");
    if (role == message.end())
      throw Error(ErrorKind::kInput, "{}: message {} has no role, expected one such as \"user\"",
                  where, i);
    if (!role->is_string() || role->string().empty())
      throw Error(ErrorKind::kInput, "{}: the role of message {} is {}, expected a text", where, i,
                  role->is_string() ? "empty" : fmt::format("a JSON {}", role->type_name()));
  }
}

Chat::Chat(const Model& model, std::string system, bool raw)
    : model_(model), system_(std::move(system)), raw_(raw || !model.chat_template()) {
  reset();
}

void Chat::add(std::string_view role, std::string_view text) {
  messages_.push_back({{"role", role}, {"content", text}});
}

void Chat::add_tool_result(std::string_view name, std::string_view id, std::string_view text) {
  Json message = {{"role", "tool"}, {"name", name}, {"content", text}};
  if (!id.empty()) message["tool_call_id"] = id;
  messages_.push_back(std::move(message));
}

void Chat::set_messages(const Json& messages, std::string_view where) {
  check_messages(messages, where);
  messages_ = messages;
}

AnswerParser Chat::parser() const {
  if (raw_) return AnswerParser(AnswerFormat());
  return AnswerParser(model_.answer_format(), {.tools = tools_, .prompt = text()});
}

void Chat::drop_last() { messages_.erase(messages_.size() - 1); }

void Chat::reset() {
  messages_ = Json::array();
  if (!system_.empty()) add("system", system_);
}

std::string Chat::text() const {
  if (!raw_) {
    const Json special = special_token_variables(model_.tokenizer());
    const auto render = [&](const Json& messages) {
      return model_.chat_template()->render(
          template_variables(special, messages, true, {{"tools", tools_}}));
    };
    return render(fit_system_messages(messages_, render));
  }
  std::string text;
  for (const Json& message : messages_)
    if (message["content"].is_string()) text += message["content"].string();
  return text;
}

}  // namespace veery
