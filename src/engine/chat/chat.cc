#include "engine/chat/chat.h"

#include <utility>

#include "base/error.h"
#include "text/system_messages.h"

namespace veery {

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

void Chat::drop_last() { messages_.erase(messages_.size() - 1); }

void Chat::reset() {
  messages_ = Json::array();
  if (!system_.empty()) add("system", system_);
}

RenderedConversation Chat::render(LostBytes* lost) const {
  if (!raw_)
    return render_conversation(
        model_,
        {.messages = messages_, .tools = tools_, .continue_last = false, .keep_system = false},
        lost);
  RenderedConversation result;
  for (const Json& message : messages_)
    if (message["content"].is_string()) result.text += message["content"].string();
  result.ids = encode_prompt(model_.tokenizer(), result.text, lost);
  return result;
}

}  // namespace veery
