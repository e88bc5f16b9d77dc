// template_sources.h: the chat templates that a model ships, by name.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Templates as a model ships them.
struct ChatTemplateSources {
  std::string standard;                                    ///< empty: there is none
  std::vector<std::pair<std::string, std::string>> named;  ///< "tool_use", "rag": name, source

  /// Adds a template or replaces the one of that name; "default" is the standard one.
  void set(std::string_view name, std::string source);
  /// nullptr: there is none of that name.
  const std::string* find(std::string_view name) const;
  /// "default, tool_use"; "none".
  std::string names() const;
};

/// Those of a GGUF file: tokenizer.chat_template and tokenizer.chat_template.NAME, with or without
/// the list tokenizer.chat_templates.
ChatTemplateSources chat_templates_of(const Metadata& metadata);

/// `choice`, the name of a template in `sources` or the source of one, in place of the templates of
/// a model. Throws kInput listing the names if it is neither.
ChatTemplateSources chosen_templates(const ChatTemplateSources& sources, std::string_view choice);

}  // namespace veery
