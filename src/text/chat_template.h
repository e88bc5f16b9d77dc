// chat_template.h: renders the chat templates (Jinja) that models ship, compatible with
// transformers.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

/// Returns messages as apply_chat_template of transformers (5.23) passes them to a template. Null
/// fields are removed. Reasoning, given as reasoning_content, thinking or reasoning, is passed as
/// both reasoning_content and thinking. Nested values (tool calls, content parts) and messages that
/// are not objects are unchanged.
Json template_messages(const Json& messages);

/// A parsed template. Immutable; rendering is thread-safe.
class ChatTemplate {
 public:
  /// Throws kFormat with line and column of a syntax error.
  explicit ChatTemplate(std::string_view source, std::string name = "template");
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  struct Options {
    /// Time for strftime_now, in seconds since 1970 as a wall clock without a time zone; absent:
    /// the current local time.
    std::optional<int64_t> now;
    /// Limits of evaluation steps and output bytes, because templates are untrusted code.
    int64_t max_steps = 20'000'000;
    size_t max_output = size_t{64} << 20;
    /// Limit of bytes held by values and output at any time.
    size_t max_memory = size_t{128} << 20;
  };
  /// Renders with `variables` (an object: messages, tools, add_generation_prompt, bos_token ...).
  /// Throws kInput with the template's message for raise_exception. Throws kFormat for other errors
  /// and kLimit if a limit of `options` is exceeded, both as "name:line: message".
  std::string render(const Json& variables, const Options& options) const;
  std::string render(const Json& variables) const { return render(variables, Options()); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veery
