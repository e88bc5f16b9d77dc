#include "serve/responses/truncation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "serve/api/api_error.h"

namespace veery::serve {
namespace {

bool has_role(const Json& message, std::string_view role) { return message["role"] == role; }

bool is_instruction(const Json& message) {
  return has_role(message, "system") || has_role(message, "developer");
}

ChatPrompt without(const ChatPrompt& chat, const std::vector<std::vector<size_t>>& groups,
                   size_t count) {
  std::vector<bool> dropped(chat.messages.size());
  for (size_t g = 0; g < count; ++g)
    for (const size_t i : groups[g]) dropped[i] = true;
  ChatPrompt shorter = chat;
  shorter.messages = Json::array();
  for (size_t i = 0; i < chat.messages.size(); ++i)
    if (!dropped[i]) shorter.messages.push_back(chat.messages[i]);
  return shorter;
}

}  // namespace

std::vector<std::vector<size_t>> droppable_messages(const Json& messages) {
  std::vector<size_t> order;  // without instructions
  for (size_t i = 0; i < messages.size(); ++i)
    if (!is_instruction(messages[i])) order.push_back(i);
  size_t last = order.size();  // begin of the user's last messages
  while (last > 0 && !has_role(messages[order[last - 1]], "user")) --last;
  const size_t after = last;
  while (last > 0 && has_role(messages[order[last - 1]], "user")) --last;
  std::vector<std::vector<size_t>> groups;
  const auto add = [&](size_t k, bool begins) {
    if (begins || groups.empty()) groups.emplace_back();
    groups.back().push_back(order[k]);
  };
  for (size_t k = 0; k < last; ++k)
    add(k, has_role(messages[order[k]], "user") &&
               (k == 0 || !has_role(messages[order[k - 1]], "user")));
  const size_t turns = groups.size();
  for (size_t k = after; k < order.size(); ++k)
    add(k, k == after || !has_role(messages[order[k]], "tool"));
  if (groups.size() > turns) groups.pop_back();
  return groups;
}

RenderedChat render_truncated(ServedModel& model, const ChatPrompt& chat, const char* field) {
  const auto rendered = [&](const ChatPrompt& shorter) -> std::optional<RenderedChat> {
    try {
      return render_for_answer(model, shorter, field);
    } catch (const ApiError& error) {
      if (error.code != "context_length_exceeded") throw;
      return {};
    }
  };
  if (std::optional<RenderedChat> whole = rendered(chat)) return std::move(*whole);
  const std::vector<std::vector<size_t>> groups = droppable_messages(chat.messages);
  size_t fails = 0, fits = groups.size();
  std::optional<RenderedChat> best = rendered(without(chat, groups, fits));
  if (!best) return render_for_answer(model, chat, field);  // throws
  while (fits - fails > 1) {
    const size_t count = fails + (fits - fails) / 2;
    std::optional<RenderedChat> shorter = rendered(without(chat, groups, count));
    if (shorter) best = std::move(shorter);
    (shorter ? fits : fails) = count;
  }
  return std::move(*best);
}

}  // namespace veery::serve
