#include "text/chat/control_guard.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace veery {
namespace {

constexpr std::string_view kFirst = "\xEF\xB7\x90";  // U+FDD0, a noncharacter
constexpr std::string_view kNext = "\xEF\xB7\x91";   // U+FDD1

size_t first_character(std::string_view text) {
  return static_cast<size_t>(next_code_point(text).length);
}

}  // namespace

ControlGuard::ControlGuard(const std::vector<std::string>& tokens) {
  std::vector<AddedTokenMatcher::Entry> entries;
  for (const std::string& token : tokens) {
    // A token of one character has no position for a mark inside.
    if (token.empty() || first_character(token) >= token.size()) continue;
    entries.push_back({token, 0});
    tokens_.push_back(token);
    longest_ = std::max(longest_, token.size());
  }
  std::ranges::sort(tokens_);
  matcher_ = AddedTokenMatcher(std::move(entries));
}

bool ControlGuard::finds_token(std::string_view text) const {
  return !matcher_.empty() && matcher_.next(text, 0).token >= 0;
}

bool ControlGuard::ends_inside(std::string_view text) const {
  for (size_t size = std::min(text.size(), longest_ - 1); size > 0; --size) {
    const std::string_view tail = text.substr(text.size() - size);
    const auto found = std::ranges::lower_bound(tokens_, tail);
    if (found != tokens_.end() && found->size() > size && found->starts_with(tail)) return true;
    // lower_bound returns the token that equals `tail`; a longer token with this prefix follows it.
    if (found != tokens_.end() && *found == tail) {
      const auto next = std::next(found);
      if (next != tokens_.end() && next->starts_with(tail)) return true;
    }
  }
  return false;
}

bool ControlGuard::finds(const Json& value) const {
  if (tokens_.empty()) return false;
  if (value.is_string()) return finds_token(value.string()) || ends_inside(value.string());
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      if (finds_token(key) || finds(member)) return true;
    return false;
  }
  return value.is_array() && std::ranges::any_of(value.begin(), value.end(),
                                                 [&](const Json& item) { return finds(item); });
}

std::string ControlGuard::guarded_text(std::string_view text, std::string_view mark,
                                       const Exempt& exempt) const {
  std::string out;
  size_t copied = 0;
  for (size_t from = 0; from < text.size();) {
    const AddedTokenMatcher::Match match = matcher_.next(text, from);
    if (match.token < 0) break;
    from = match.begin + 1;  // tokens may overlap
    if (exempt && exempt(text.substr(match.begin, match.end - match.begin))) continue;
    const size_t inside = match.begin + first_character(text.substr(match.begin));
    out += text.substr(copied, inside - copied);
    out += mark;
    copied = inside;
  }
  out += text.substr(copied);
  if (ends_inside(text)) out += mark;
  return out;
}

Json ControlGuard::guarded(const Json& value, std::string_view mark, const Exempt& exempt) const {
  if (tokens_.empty()) return value;
  if (value.is_string()) return guarded_text(value.string(), mark, exempt);
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) out.push_back(guarded(item, mark, exempt));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.items())
    out[finds_token(key) ? guarded_text(key, mark, exempt) : std::string(key)] =
        guarded(member, mark, exempt);
  return out;
}

std::string ControlGuard::mark_for(std::string_view text) {
  std::string mark = std::string(kFirst) + std::string(kNext);
  while (text.find(mark) != std::string_view::npos) mark += kNext;
  return mark;
}

}  // namespace veery
