#include "text/system_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"

namespace veery {
namespace {

using Render = std::function<std::string(const Json&)>;

bool has_role(const Json& message, std::string_view role) {
  const Json* found = message.is_object() ? message.member("role") : nullptr;
  return found != nullptr && found->is_string() && found->string() == role;
}

bool instructs(const Json& message) {
  return has_role(message, "system") || has_role(message, "developer");
}

bool has_text(const Json& message) {
  const Json* content = message.member("content");
  return content != nullptr && content->is_string();
}

// Returns whether there is at most one system message, at the front, and no developer message.
bool is_plain(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (instructs(messages[i]) && (i > 0 || has_role(messages[i], "developer"))) return false;
  return true;
}

// Returns for each message whether it is rendered; nullopt if the template raises an error.
std::optional<std::vector<bool>> rendered(const Json& messages, const Render& render) {
  const auto marker = [](size_t i) { return fmt::format("qzmarker{}qz", i); };
  Json marked = messages;
  for (size_t i = 0; i < marked.size(); ++i)
    if (instructs(marked[i])) marked[i]["content"] = marker(i);
  std::string text;
  try {
    text = render(marked);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return std::nullopt;
  }
  std::vector<bool> found;
  for (size_t i = 0; i < marked.size(); ++i)
    found.push_back(!instructs(marked[i]) || text.find(marker(i)) != std::string::npos);
  return found;
}

bool all_rendered(const Json& messages, const Render& render) {
  const auto found = rendered(messages, render);
  return found && std::ranges::find(*found, false) == found->end();
}

Json without_developers(Json messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (has_role(messages[i], "developer")) messages[i]["role"] = "system";
  return messages;
}

// Appends the texts of later system messages that are not `kept` to the first one.
Json merged(const Json& messages, const std::vector<bool>& kept) {
  Json result = Json::array();
  const bool first = !messages.empty() && instructs(messages[0]) && has_text(messages[0]);
  std::string text = first ? messages[0]["content"].string() : std::string();
  for (size_t i = first ? 1 : 0; i < messages.size(); ++i) {
    if (!instructs(messages[i]) || !has_text(messages[i]) || kept[i]) {
      result.push_back(messages[i]);
      continue;
    }
    if (!text.empty()) text += "\n\n";
    text += messages[i]["content"].string();
  }
  Json front = first ? messages[0] : Json{{"role", "system"}};
  front["content"] = text;
  result.push_front(std::move(front));
  return result;
}

Json with_joined_users(const Json& messages) {
  Json result = Json::array();
  for (const Json& message : messages) {
    const bool joins = !result.empty() && has_role(message, "user") && has_text(message) &&
                       has_role(result.back(), "user") && has_text(result.back());
    if (joins)
      result.back()["content"] =
          result.back()["content"].string() + "\n\n" + message["content"].string();
    else
      result.push_back(message);
  }
  return result;
}

// Moves the leading system message to the start of the first user message.
Json in_first_user(const Json& messages) {
  Json result = messages;
  const std::string text = messages[0]["content"].string();
  for (size_t i = 1; i < result.size(); ++i) {
    if (!has_role(result[i], "user") || !has_text(result[i])) continue;
    result[i]["content"] = text + "\n\n" + result[i]["content"].string();
    result.erase(0);
    return result;
  }
  return messages;
}

// Returns whether the template silently omits a leading system message.
bool loses_first(const Render& render) {
  const Json shortest = Json::array(
      {{{"role", "system"}, {"content", ""}}, {{"role", "user"}, {"content", "Hello"}}});
  const auto found = rendered(shortest, render);
  return found && !found->front();
}

}  // namespace

Json keep_first_system(const Json& messages, const Render& render) {
  const bool any = messages.is_array() && !messages.empty() && has_role(messages[0], "system") &&
                   has_text(messages[0]);
  return any && loses_first(render) ? in_first_user(messages) : messages;
}

Json fit_system_messages(const Json& messages, const Render& render) {
  if (!messages.is_array() || is_plain(messages) || all_rendered(messages, render)) return messages;
  Json known = without_developers(messages);
  const auto found = rendered(known, render);
  if (found && std::ranges::find(*found, false) == found->end()) return known;
  const std::vector<bool> none(known.size(), false);
  for (const std::vector<bool>& kept : {found.value_or(none), none}) {
    Json changed = merged(known, kept);
    if (all_rendered(changed, render)) return changed;
    changed = with_joined_users(changed);
    if (all_rendered(changed, render)) return changed;
  }
  known = merged(known, none);
  return loses_first(render) ? in_first_user(known) : messages;
}

}  // namespace veery
