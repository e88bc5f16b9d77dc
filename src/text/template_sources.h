// template_sources.h: sources of the chat templates that a model ships, by name.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// The chat templates of a model as source text.
struct ChatTemplateSources {
  std::string standard;                                    ///< the default template; empty: none
  std::vector<std::pair<std::string, std::string>> named;  ///< name ("tool_use") and source

  /// Adds or replaces a template; the name "default" sets the default template.
  void set(std::string_view name, std::string source);
  /// Returns the source of a template, or nullptr.
  const std::string* find(std::string_view name) const;
  /// Returns the names for messages: "default, tool_use", or "none".
  std::string names() const;
};

/// Returns the templates of a GGUF file: tokenizer.chat_template and tokenizer.chat_template.NAME,
/// whether or not tokenizer.chat_templates lists them.
ChatTemplateSources chat_templates_of(const Metadata& metadata);

/// Returns the template `choice`, which is either a name in `sources` or the source of a template.
/// Throws kInput, listing the names, if it is neither.
ChatTemplateSources chosen_templates(const ChatTemplateSources& sources, std::string_view choice);

}  // namespace veery
