#include "text/template_sources.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

constexpr std::string_view kKey = "tokenizer.chat_template";

bool is_source(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

}  // namespace

void ChatTemplateSources::set(std::string_view name, std::string source) {
  if (name == "default") {
    standard = std::move(source);
    return;
  }
  for (auto& [own, text] : named)
    if (own == name) {
      text = std::move(source);
      return;
    }
  named.emplace_back(name, std::move(source));
}

const std::string* ChatTemplateSources::find(std::string_view name) const {
  if (name == "default") return standard.empty() ? nullptr : &standard;
  for (const auto& [own, source] : named)
    if (own == name) return &source;
  return nullptr;
}

std::string ChatTemplateSources::names() const {
  std::string text = standard.empty() ? "" : "default";
  for (const auto& [name, source] : named) text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "none" : text;
}

ChatTemplateSources chat_templates_of(const Metadata& metadata) {
  ChatTemplateSources sources;
  sources.standard = metadata.text(std::string(kKey)).value_or("");
  for (const auto& [key, value] : metadata.all()) {
    const auto* source = std::get_if<std::string>(&value);
    if (source != nullptr && key.starts_with(kKey) && key.size() > kKey.size() + 1 &&
        key[kKey.size()] == '.')
      sources.set(key.substr(kKey.size() + 1), *source);
  }
  return sources;
}

ChatTemplateSources chosen_templates(const ChatTemplateSources& sources, std::string_view choice) {
  if (const std::string* found = sources.find(choice)) return {*found, {}};
  if (is_source(choice)) return {std::string(choice), {}};
  throw Error(ErrorKind::kInput,
              "chat template '{}' is neither Jinja nor a template of the model, which has {}",
              printable(choice.substr(0, 100)), sources.names());
}

}  // namespace veery
