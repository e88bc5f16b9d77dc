// chat_template.h: chat templates as models ship them (Jinja), rendered as transformers renders
// them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

/// Messages as transformers (5.23, apply_chat_template) hands them to a template: without the
/// fields of a message whose value is null, and with its reasoning, under whichever of the names
/// reasoning_content, thinking and reasoning it came, as reasoning_content and thinking. What lies
/// deeper (tool calls, parts of content) stays as it is, as do messages that are no objects.
Json template_messages(const Json& messages);

/// A parsed template; immutable, safe to render from several threads.
class ChatTemplate {
 public:
  /// Throws kFormat naming line and column of a syntax error.
  explicit ChatTemplate(std::string_view source, std::string name = "template");
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  struct Options {
    /// Seconds since 1970 as a wall clock without a zone, for strftime_now; absent: the local time
    /// now.
    std::optional<int64_t> now;
    /// Steps of evaluation and bytes of output after which rendering is refused: templates are
    /// foreign code.
    int64_t max_steps = 20'000'000;
    size_t max_output = size_t{64} << 20;
    /// Bytes of values and output that may be held at a time.
    size_t max_memory = size_t{128} << 20;
  };
  /// Renders with `variables` (an object: messages, tools, add_generation_prompt, bos_token ...).
  /// Throws kInput with the template's own message for raise_exception, kFormat for other faults
  /// and kLimit for a template that asks for too much, both as "name:line: what".
  std::string render(const Json& variables, const Options& options) const;
  std::string render(const Json& variables) const { return render(variables, Options()); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veery
