#include "chat/chat.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/system_messages.h"

namespace veery {
namespace {

bool has_role(const Json& message, std::string_view role) {
  const Json* found = message.member("role");
  return found != nullptr && found->is_string() && found->string() == role;
}

}  // namespace

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
  if (messages_.empty() || !has_role(messages_.front(), "system")) return;
  const Json* content = messages_.front().member("content");
  if (content != nullptr && content->is_string()) system_ = content->string();
}

void Chat::set_system(std::string text) {
  system_ = std::move(text);
  if (!messages_.empty() && has_role(messages_.front(), "system")) messages_.erase(size_t{0});
  if (!system_.empty()) messages_.push_front({{"role", "system"}, {"content", system_}});
}

void Chat::drop_last() { messages_.erase(messages_.size() - 1); }

void Chat::reset() {
  messages_ = Json::array();
  if (!system_.empty()) add("system", system_);
}

size_t Chat::turns() const {
  return static_cast<size_t>(
      std::ranges::count_if(messages_.begin(), messages_.end(),
                            [](const Json& message) { return has_role(message, "user"); }));
}

// Returns the index of the user message that begins a turn, or the number of messages if there is
// no such turn.
size_t Chat::turn_begin(size_t turn) const {
  for (size_t i = 0; i < messages_.size(); ++i)
    if (has_role(messages_[i], "user") && turn-- == 0) return i;
  return messages_.size();
}

bool Chat::drop_last_turn() {
  const size_t count = turns();
  if (count == 0) return false;
  const size_t begin = turn_begin(count - 1);
  while (messages_.size() > begin) drop_last();
  return true;
}

bool Chat::drop_answer() {
  size_t kept = messages_.size();
  while (kept > 0 && !has_role(messages_[kept - 1], "user") &&
         !has_role(messages_[kept - 1], "tool"))
    --kept;
  if (kept == 0) return false;
  while (messages_.size() > kept) drop_last();
  return true;
}

void Chat::drop_first_turns(size_t count) {
  const size_t begin = turn_begin(0), end = turn_begin(count);
  Json kept = Json::array();
  for (size_t i = 0; i < messages_.size(); ++i)
    if (i < begin || i >= end) kept.push_back(messages_[i]);
  messages_ = std::move(kept);
}

size_t Chat::drop_turns_beyond(size_t most) {
  const auto fits = [&](size_t dropped) {
    Chat shorter(*this);
    shorter.drop_first_turns(dropped);
    return shorter.prompt().size() <= most;
  };
  if (turns() < 2 || fits(0)) return 0;
  // Binary search: prompts shrink with each dropped turn, and dropping `low` turns is too few.
  size_t low = 0, high = turns() - 1;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  drop_first_turns(high);
  return high;
}

RenderedConversation Chat::render(LostBytes* lost, bool continues) const {
  if (!raw_)
    return render_conversation(model_,
                               {.messages = messages_,
                                .tools = tools_,
                                .variables = variables_,
                                .continue_last = continues,
                                .keep_system = false},
                               lost);
  RenderedConversation result;
  for (const Json& message : messages_)
    if (message["content"].is_string()) result.text += message["content"].string();
  result.ids = encode_prompt(model_.tokenizer(), result.text, lost);
  return result;
}

std::vector<OpenCall> open_calls(const Json& messages) {
  size_t results = 0, end = messages.size();
  for (; end > 0 && has_role(messages[end - 1], "tool"); --end) ++results;
  std::vector<OpenCall> open;
  if (end == 0 || !has_role(messages[end - 1], "assistant")) return open;
  const Json* calls = messages[end - 1].member("tool_calls");
  if (calls == nullptr || !calls->is_array()) return open;
  for (size_t i = results; i < calls->size(); ++i) {
    const Json& call = (*calls)[i];
    open.push_back({call.value("id", ""), call["function"].value("name", "")});
  }
  return open;
}

void give_call_ids(ParsedAnswer& answer, const Json& messages) {
  size_t count = 0;
  for (const Json& message : messages)
    if (const Json* calls = message.member("tool_calls"); calls != nullptr && calls->is_array())
      count += calls->size();
  for (ToolCall& call : answer.calls) {
    ++count;
    if (call.id.empty()) call.id = fmt::format("call_{}", count);
  }
}

}  // namespace veery
