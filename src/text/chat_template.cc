#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/jinja/evaluator.h"

namespace veery {
namespace {

constexpr size_t kLongestReason = 1000;  // in bytes; templates quote their input in errors

}  // namespace

namespace {

Json template_message(const Json& message) {
  if (!message.is_object()) return message;
  const auto is_set = [&](const char* key) {
    const auto found = message.find(key);
    return found != message.end() && !found->is_null();
  };
  constexpr const char* kReasoning[] = {"reasoning_content", "thinking", "reasoning"};
  const auto* const reasoning = std::ranges::find_if(kReasoning, is_set);
  const bool has_reasoning = reasoning != std::end(kReasoning);
  Json out = Json::object();
  if (has_reasoning) out["thinking"] = message[*reasoning];
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) out[key] = value;
  if (has_reasoning) out["reasoning_content"] = message[*reasoning];
  return out;
}

}  // namespace

Json template_messages(const Json& messages) {
  if (!messages.is_array()) return messages;
  Json out = Json::array();
  for (const Json& message : messages) out.push_back(template_message(message));
  return out;
}

struct ChatTemplate::Impl {
  std::string name;
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  const jinja::BudgetScope unlimited(nullptr);
  try {
    impl_->parsed = jinja::parse(source);
  } catch (const Error& error) {
    throw Error(ErrorKind::kFormat, "{}: {}", impl_->name, printable(error.what(), kLongestReason));
  }
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::render(const Json& variables, const Options& options) const {
  if (!variables.is_object())
    throw Error(ErrorKind::kInput, "{}: the variables are a JSON {}, expected an object",
                impl_->name, variables.type_name());
  jinja::Budget budget(options.max_steps, options.max_memory);
  const jinja::BudgetScope scope(&budget);
  jinja::Context context(budget);
  context.has_now = options.now.has_value();
  context.now = options.now.value_or(0);
  jinja::Evaluator evaluator(impl_->parsed, context, options.max_output);
  try {
    return evaluator.render(variables);
  } catch (const Error& error) {
    // A message raised by the template itself.
    if (error.kind() == ErrorKind::kInput)
      throw Error(error.kind(), "{}", printable(error.what(), kLongestReason));
    throw Error(error.kind(), "{}:{}: {}", impl_->name, evaluator.line(),
                printable(error.what(), kLongestReason));
  }
}

}  // namespace veery
